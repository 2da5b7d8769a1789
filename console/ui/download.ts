/** Hands the browser a file that the console has made. */

export function download(content: Blob, name: string): void {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(content);
  link.download = name;
  link.click();
  // The browser has begun by the next turn.
  setTimeout(() => URL.revokeObjectURL(link.href));
}
