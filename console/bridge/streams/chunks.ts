/** Reads the body of an answer: not every browser iterates over one. Whoever stops reading closes the connection. */
export async function* chunksOf(reader: ReadableStreamDefaultReader<Uint8Array>): AsyncGenerator<Uint8Array> {
  try {
    for (let read = await reader.read(); !read.done; read = await reader.read()) yield read.value;
  } catch {
    // It broke: as if it had ended.
  } finally {
    reader.cancel().catch(() => {});
  }
}
