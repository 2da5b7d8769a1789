/** What a browser shows of a draft that cannot be prepared: the error, on a page that loads itself again once it is mended. Pure. */
import { bridgeTag, type PageOwner } from '../../protocol/bridge.ts';
import type { SvcError } from '../../protocol/errors.ts';

export function faultPage(error: SvcError, owner: PageOwner): string {
  const where = error.path === undefined || error.path === '' ? '' : `<p class="where">${escaped(error.path)}</p>`;
  // The message is about the first of them.
  const issues = (error.issues ?? [])
    .slice(1)
    .map(
      ({ path, message, line, column }) =>
        `<li><code>${escaped(path)}${line === undefined ? '' : `:${line}:${column ?? 1}`}</code> ${escaped(message)}</li>`,
    );
  return `<!doctype html>
<html lang="en">
<head>${bridgeTag(owner)}
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>${escaped(owner.app)}: ${escaped(error.code)}</title>
<style>
  :root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
  body { max-width: 40rem; margin: 15vh auto; padding: 0 1.5rem; }
  h1 { font-size: 1.25rem; margin: 0 0 1rem; }
  code, .where { font-family: ui-monospace, monospace; font-size: 0.9em; }
  .message { white-space: pre-wrap; overflow-wrap: anywhere; }
  .where { opacity: 0.8; }
  .next { margin-top: 2rem; opacity: 0.7; }
</style>
</head>
<body>
<main>
<h1>The draft of “${escaped(owner.app)}” does not run as it is</h1>
<p class="message">${escaped(error.message)}</p>
${where}${issues.length === 0 ? '' : `<ul>${issues.join('')}</ul>`}
<p class="next"><code>${escaped(error.code)}</code> · Save a change, and this page shows the app again.</p>
</main>
</body>
</html>
`;
}

function escaped(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}
