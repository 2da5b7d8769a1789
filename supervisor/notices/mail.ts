/** Sends notices by mail, over SMTP (specification, "Notices"). */
import { heading } from '../../protocol/notice.ts';
import type { Send } from './delivery.ts';
import type { MailSettings } from './notice-settings.ts';

const LOOPBACK = /^(?:localhost|127\.\d+\.\d+\.\d+|\[::1\])$/;

/** The library is loaded with the first mail. */
export function mailSender({ url, from, to }: MailSettings): Send {
  const { hostname, username } = new URL(url);
  // A password never travels in clear text, but to this machine.
  const requireTLS = username !== '' && !LOOPBACK.test(hostname);
  return async (notice, signal) => {
    const { createTransport } = await import('nodemailer');
    const transport = createTransport({ url, requireTLS, disableFileAccess: true, disableUrlAccess: true });
    await transport.sendMail({
      signal,
      from,
      to,
      subject: heading(notice),
      text: notice.url === null ? notice.text : `${notice.text}\n\n${notice.url}`,
      date: new Date(notice.at),
      // The same when it is sent again.
      messageId: `<${notice.id}@svc>`,
      // Nobody's notice of absence answers it.
      headers: { 'auto-submitted': 'auto-generated' },
    });
  };
}
