/** Mints the address and the secret of a webhook (specification, "Authentication", 4; decisions, section 6). */
import { createHash } from 'node:crypto';

const SLUG_BYTES = 12;
const SECRET_BYTES = 24;
const SIGNING_PREFIX = 'whsec_';

/**
 * `secret` is shown once; `secretHash` is what the automation's file keeps. One that is signed has a key as Standard Webhooks
 * writes it. `random` answers that many unguessable bytes.
 */
export function mintWebhook(
  signing: boolean,
  random: (bytes: number) => Buffer,
): { id: string; secret: string; secretHash: string } {
  const id = random(SLUG_BYTES).toString('hex');
  const bytes = random(SECRET_BYTES);
  const secret = signing ? `${SIGNING_PREFIX}${bytes.toString('base64')}` : bytes.toString('hex');
  return { id, secret, secretHash: createHash('sha256').update(secret).digest('hex') };
}
