/** Opens a page in the browser of whoever sits here. */
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** How long a browser may take to start. */
const FILE_MS = 60_000;

/**
 * Goes to an address that signs a browser in. What a browser is started with can be read by everybody on the machine for as
 * long as it runs: so it is started with a file that only its owner may read, and that leads there. The file goes after a
 * minute, or with this process.
 */
export function openBrowser(url: string, platform: NodeJS.Platform): void {
  const folder = mkdtempSync(join(tmpdir(), 'svc-open-'));
  const file = join(folder, 'open.html');
  writeFileSync(file, forwardingPage(url), { mode: 0o600 });
  const remove = (): void => {
    process.off('exit', remove);
    rmSync(folder, { recursive: true, force: true });
  };
  process.on('exit', remove);
  setTimeout(remove, FILE_MS).unref();
  start(file, platform);
}

/** Leads on by script, which leaves no entry in the history, or by a link for whoever has none. */
export function forwardingPage(url: string): string {
  // A script's text ends at "</script", whatever stands around it.
  const script = JSON.stringify(url).replaceAll('<', '\\u003c');
  const attribute = url.replaceAll('&', '&amp;').replaceAll('"', '&quot;').replaceAll('<', '&lt;');
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="referrer" content="no-referrer">
<title>svc</title>
<script>location.replace(${script})</script>
<p><a href="${attribute}">Open</a></p>
</html>
`;
}

function start(file: string, platform: NodeJS.Platform): void {
  spawn(platform === 'darwin' ? 'open' : 'xdg-open', [file], { stdio: 'ignore', detached: true })
    .on('error', () => {})
    .unref();
}
