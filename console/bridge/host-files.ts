/**
 * Shows files of the app that a page names by their addresses, `_blobs/<sha256>`, in a host of MCP Apps: nothing can be loaded there, so
 * the host reads each, and the page gets an address that contains it.
 */
import { fileUri } from '../../protocol/http/mcp-app.ts';
import type { Host } from './app-host.ts';

const FILE = /(?:^|\/)_blobs\/([0-9a-f]{64})$/;

export function showFiles(host: Host, app: string): void {
  /** By name: what was read already. */
  const files = new Map<string, Promise<string>>();

  const fileOf = (name: string): Promise<string> => {
    const known = files.get(name);
    if (known) return known;
    const reading = host
      .request('resources/read', { uri: fileUri(app, name) })
      .then(({ contents: [file] }) => `data:${file.mimeType};base64,${file.blob}`);
    files.set(name, reading);
    reading.catch(() => files.delete(name));
    return reading;
  };

  addEventListener(
    'error',
    (event) => {
      const { target } = event;
      if (
        !(
          target instanceof HTMLImageElement ||
          target instanceof HTMLMediaElement ||
          target instanceof HTMLSourceElement
        )
      )
        return;
      const [, name] = FILE.exec(target.getAttribute('src') ?? '') ?? [];
      if (name === undefined) return;
      // Nothing is wrong with it yet.
      event.stopImmediatePropagation();
      const address = target.getAttribute('src');
      fileOf(name).then(
        (url) => {
          // It may show another one by now.
          if (target.getAttribute('src') === address) target.src = url;
          if (target instanceof HTMLSourceElement) (target.parentElement as HTMLMediaElement | null)?.load?.();
        },
        (error: unknown) => console.warn(`The file ${name} cannot be shown.`, error),
      );
    },
    true,
  );
}
