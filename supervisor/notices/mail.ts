/** Sends notices by mail, over SMTP (specification, "Notices"). */
import { heading } from '../../protocol/notice.ts';
import type { Send } from './delivery.ts';
import type { MailServer } from './notice-settings.ts';

const LOOPBACK = /^(?:localhost|127\.\d+\.\d+\.\d+|\[::1\])$/;

/** `at` is in milliseconds since the epoch. The same `id` says that it is the same mail, sent again. */
type Mail = { to: string | string[]; subject: string; text: string; at: number; id: string };

/** Sends notices to the addresses of a channel. */
export function mailSender({ to, ...server }: MailServer & { to: string | string[] }): Send {
  const send = mailer(server);
  return (notice, signal) => {
    const text = notice.url === null ? notice.text : `${notice.text}\n\n${notice.url}`;
    return send({ to, subject: heading(notice), text, at: notice.at, id: notice.id }, signal);
  };
}

/** Sends mails. The library is loaded with the first one. Rejects with what it or the network throws. */
export function mailer({ url, from }: MailServer): (mail: Mail, signal: AbortSignal) => Promise<void> {
  const { hostname, username } = new URL(url);
  // A password never travels in clear text, but to this machine.
  const requireTLS = username !== '' && !LOOPBACK.test(hostname);
  return async ({ to, subject, text, at, id }, signal) => {
    const { createTransport } = await import('nodemailer');
    const transport = createTransport({ url, requireTLS, disableFileAccess: true, disableUrlAccess: true });
    await transport.sendMail({
      signal,
      from,
      to,
      subject,
      text,
      date: new Date(at),
      // The same when it is sent again.
      messageId: `<${id}@svc>`,
      // Nobody's notice of absence answers it.
      headers: { 'auto-submitted': 'auto-generated' },
    });
  };
}
