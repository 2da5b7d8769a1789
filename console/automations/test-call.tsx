/** Shows a shell command that calls a webhook. The command makes the signature that the webhook asks for. */

import type { ShownTrigger } from '../../protocol/answer-types.ts';
import type { HmacVerify, WebhookVerify } from '../../protocol/automations/automation.ts';
import { CopyButton } from '../ui/parts.tsx';
import { quoted } from '../words.ts';

/** A webhook that has an address. */
type ShownWebhook = Extract<ShownTrigger, { url: string }>;

const BODY = '{"hello":"world"}';
const GITHUB: HmacVerify = { header: 'x-hub-signature-256', algorithm: 'sha256', encoding: 'hex', prefix: 'sha256=' };

/** Bytes as text: what `openssl -binary` prints, without a line end. */
const ENCODERS = { hex: "od -An -tx1 | tr -d ' \\n'", base64: 'openssl base64 -A' };

const hmacOf = (signed: string, { algorithm, encoding }: Pick<HmacVerify, 'algorithm' | 'encoding'>): string =>
  `SIGNATURE=$(printf %s "${signed}" | openssl dgst -${algorithm} -hmac "$SECRET" -binary | ${ENCODERS[encoding]})`;

const SHA256 = { algorithm: 'sha256', encoding: 'hex' } as const;

/** Lines before the request, and its headers, quoted for the shell. */
function proofOf(verify: WebhookVerify): { lines: string[]; headers: string[] } {
  if (verify === 'bearer') return { lines: [], headers: ['"authorization: Bearer $SECRET"'] };
  const timed = 'TIME=$(date +%s)';
  if (verify === 'standard') {
    return {
      lines: [
        `${timed} ID=test-$(date +%s)-$$`,
        `KEY=$(printf %s "\${SECRET#whsec_}" | openssl base64 -d -A | ${ENCODERS.hex})`,
        'SIGNATURE=$(printf %s "$ID.$TIME.$BODY" | openssl dgst -sha256 -mac HMAC -macopt "hexkey:$KEY" -binary |',
        `  ${ENCODERS.base64})`,
      ],
      headers: ['"webhook-id: $ID"', '"webhook-timestamp: $TIME"', '"webhook-signature: v1,$SIGNATURE"'],
    };
  }
  if (verify === 'stripe')
    return { lines: [timed, hmacOf('$TIME.$BODY', SHA256)], headers: ['"stripe-signature: t=$TIME,v1=$SIGNATURE"'] };
  if (verify === 'slack') {
    return {
      lines: [timed, hmacOf('v0:$TIME:$BODY', SHA256)],
      headers: ['"x-slack-request-timestamp: $TIME"', '"x-slack-signature: v0=$SIGNATURE"'],
    };
  }
  const hmac = verify === 'github' ? GITHUB : verify;
  const { header, prefix = '' } = hmac;
  return {
    lines: [hmacOf('$BODY', hmac)],
    headers: [
      ...(verify === 'github' ? ["'x-github-event: ping'"] : []),
      `${quoted(`${header}: ${prefix}`)}"$SIGNATURE"`,
    ],
  };
}

/** For a POSIX shell with curl and openssl, in which SECRET is the webhook's secret. */
function testCall(trigger: ShownWebhook): string {
  const verify = 'verify' in trigger ? trigger.verify : trigger.signing ? 'standard' : 'bearer';
  const { lines, headers } = proofOf(verify);
  const options = ["-H 'content-type: application/json'", ...headers.map((header) => `-H ${header}`)];
  return [
    `BODY=${quoted(BODY)}`,
    ...lines,
    `curl -d "$BODY" ${[...options, quoted(trigger.url)].join(' \\\n  ')}`,
  ].join('\n');
}

export function TestCall({ trigger }: { trigger: ShownWebhook }) {
  const text = testCall(trigger);
  return (
    <details>
      <summary>Test call</summary>
      <p class="hint">
        Run this in a shell in which <code>SECRET</code> is{' '}
        {'secret' in trigger ? (
          <>
            the value of the app’s secret <code>{trigger.secret}</code>
          </>
        ) : (
          <>the {trigger.signing ? 'key' : 'secret'} that was shown when the address was made</>
        )}
        . The gateway checks the request like any other, and fires the automation if it is on.
      </p>
      <pre>{text}</pre>
      <p>
        <CopyButton text={text} label="Copy the call" />
      </p>
      <p class="hint">
        Without the secret, use “Run now” below: the handler gets the body as its input. No request is sent, so nothing
        is verified and the handler’s <code>request</code> is undefined.
      </p>
    </details>
  );
}
