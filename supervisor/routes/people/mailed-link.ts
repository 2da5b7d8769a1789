/** Mails the links of invitations and of people, where the configuration has a mail server (specification, "People"). */
import { randomUUID } from 'node:crypto';
import { LIMITS } from '../../../protocol/limits.ts';
import type { Mailed } from '../../../protocol/routes/people/pieces.ts';
import { joinSignals } from '../../../protocol/signals.ts';
import { inWords } from '../../notices/delivery.ts';
import { mailer } from '../../notices/mail.ts';
import type { Services } from '../../services.ts';

/** `by` is who sends it, null for the administrator. `what` says in words what it gives. */
type Link = { url: string; expiresAt: number; by: string | null; what: string };

/**
 * Sends a link to an address, and says whether that worked: who made it has it in any case. Null: there is no mail server, or no
 * address. Never rejects.
 */
export async function mailLink({ config, log }: Services, to: string | null, link: Link): Promise<Mailed> {
  const { mail } = config;
  if (mail === null || to === null) return null;
  const { host } = new URL(link.url);
  const subject = `${link.by ?? 'The administrator'} sent you a link to ${host}`.replace(/\p{Cc}+/gu, ' ');
  const { signal, release } = joinSignals([], LIMITS.linkMailMs);
  try {
    await mailer(mail)({ to, subject, text: textOf(link, host), at: Date.now(), id: randomUUID() }, signal);
    return { to, problem: null };
  } catch (error) {
    const problem = inWords(error);
    log.warn({ problem }, 'A link could not be mailed.');
    return { to, problem };
  } finally {
    release();
  }
}

function textOf({ url, expiresAt, what }: Link, host: string): string {
  return [
    `With this link ${what} at ${host}. It is good until ${new Date(expiresAt).toUTCString()}:`,
    url,
    'Whoever has the link can use it. If you do not know what it is about, leave it alone.',
  ].join('\n\n');
}
