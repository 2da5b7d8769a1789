/** Signs a request as the sender of a webhook does, so that a test only names the body. */
import { createHmac, randomUUID } from 'node:crypto';
import type { WebhookVerify } from '../../protocol/automations/automation.ts';

/** Headers by which `verify` knows the sender; `now` is milliseconds since the epoch. */
export function signatureHeaders(
  verify: WebhookVerify,
  secret: string,
  body: Buffer,
  now: number,
): Record<string, string> {
  const seconds = Math.floor(now / 1000);
  const hmac = (key: string | Buffer, before: string, algorithm = 'sha256') =>
    createHmac(algorithm, key).update(before).update(body);
  switch (verify) {
    case 'bearer':
      return { authorization: `Bearer ${secret}` };
    case 'standard': {
      const id = `msg_${randomUUID()}`;
      const key = Buffer.from(secret.replace(/^whsec_/, ''), 'base64');
      const signature = hmac(key, `${id}.${seconds}.`).digest('base64');
      return { 'webhook-id': id, 'webhook-timestamp': `${seconds}`, 'webhook-signature': `v1,${signature}` };
    }
    case 'github':
      return {
        'x-hub-signature-256': `sha256=${hmac(secret, '').digest('hex')}`,
        'x-github-delivery': randomUUID(),
      };
    case 'stripe':
      return { 'stripe-signature': `t=${seconds},v1=${hmac(secret, `${seconds}.`).digest('hex')}` };
    case 'slack':
      return {
        'x-slack-request-timestamp': `${seconds}`,
        'x-slack-signature': `v0=${hmac(secret, `v0:${seconds}:`).digest('hex')}`,
      };
    default:
      return {
        [verify.header.toLowerCase()]: `${verify.prefix ?? ''}${hmac(secret, '', verify.algorithm).digest(verify.encoding)}`,
      };
  }
}
