/**
 * Sends a file with PUT and resolves to the Response, as `fetch` does, which does not tell how far an upload is. `onProgress` is told
 * a number from 0 to 1. Rejects when no answer came, or `signal` aborted.
 */
export function put(url, file, { headers, onProgress, signal }) {
  return new Promise((resolve, reject) => {
    const xhr = new XMLHttpRequest();
    const stop = () => xhr.abort();
    xhr.open('PUT', url);
    for (const [name, value] of Object.entries(headers)) xhr.setRequestHeader(name, value);
    if (!file.type) xhr.setRequestHeader('content-type', 'application/octet-stream');
    if (onProgress) xhr.upload.onprogress = ({ loaded, total }) => onProgress(total === 0 ? 1 : loaded / total);
    xhr.onloadend = () => {
      signal?.removeEventListener('abort', stop);
      const { status, responseText } = xhr;
      if (status === 0) reject(new TypeError('There was no answer.'));
      else resolve(new Response(responseText, { status }));
    };
    signal?.addEventListener('abort', stop);
    xhr.send(file);
  });
}
