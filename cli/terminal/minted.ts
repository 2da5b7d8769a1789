/** Webhooks that were minted just now: the only time that their secrets are seen. */
import type { MintedWebhook } from '../../protocol/automation.ts';
import type { Terminal } from './terminal.ts';

export function drawMinted(terminal: Terminal, webhooks: MintedWebhook[]): void {
  const { style, noteStyle } = terminal;
  for (const { ownerApp, automationId, url, secret } of webhooks) {
    terminal.line(`${style('green', '✓')} webhook of ${style('bold', `${ownerApp}/${automationId}`)}`);
    terminal.line(`  ${style('dim', 'url'.padEnd(9))} ${style('cyan', url)}`);
    terminal.line(`  ${style('dim', 'secret'.padEnd(9))} ${secret}`);
  }
  if (webhooks.length > 0) terminal.note(noteStyle('yellow', 'Keep the secret now: it is not shown again.'));
}
