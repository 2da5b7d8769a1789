/** What browsers and devices exchange about passkeys (Web Authentication, "PublicKeyCredential" as JSON). */
import { LIMITS } from '../../limits.ts';
import { flag, listOf, object, oneOf, text } from '../../shapes/schema.ts';
import { TIME } from '../pieces.ts';

const ID = {
  type: 'string',
  pattern: '^[A-Za-z0-9_-]+$',
  maxLength: LIMITS.passkeyIdChars,
  wanted: `base64url of at most ${LIMITS.passkeyIdChars} characters`,
} as const;
const BYTES = {
  ...ID,
  maxLength: LIMITS.passkeyAnswerChars,
  wanted: `base64url of at most ${LIMITS.passkeyAnswerChars} characters`,
} as const;
const PUBLIC_KEY = oneOf('public-key');
const answered = <const S extends Parameters<typeof object>[0], O extends Parameters<typeof object>[0]>(
  required: S,
  optional: O,
) =>
  ({
    ...object({
      id: ID,
      rawId: ID,
      type: PUBLIC_KEY,
      response: object({ clientDataJSON: BYTES, ...required }, optional),
    }),
    wanted: 'the answer of a device',
  }) as const;

/** A new passkey, as the browser gives it. */
export const MADE = {
  ...answered(
    { attestationObject: BYTES },
    { transports: { ...listOf({ ...text, maxLength: 32 }, 'a list of texts'), maxItems: 10 } },
  ),
  says: 'The new passkey: the `toJSON()` of what `navigator.credentials.create` gives for the options',
} as const;
/** The use of a passkey, as the browser gives it. */
export const USED = {
  ...answered({ authenticatorData: BYTES, signature: BYTES, userHandle: ID }, {}),
  says: 'The `toJSON()` of what `navigator.credentials.get` gives for the options',
} as const;

const CHALLENGE = { challenge: { ...text, says: 'To be answered once' }, timeout: { ...TIME, wanted: 'milliseconds' } };
/** What the browser asks a device with, for a passkey that it has. */
export const OPTIONS = object({ ...CHALLENGE, rpId: text, userVerification: text });
/** The same for a new one. */
export const NEW_OPTIONS = object({
  ...CHALLENGE,
  rp: object({ id: text, name: text }),
  user: object({ id: text, name: text, displayName: text }),
  pubKeyCredParams: listOf(object({ type: PUBLIC_KEY, alg: { type: 'integer', wanted: 'an integer' } })),
  excludeCredentials: {
    ...listOf(object({ type: PUBLIC_KEY, id: text, transports: listOf(text) })),
    says: 'Those that the account has',
  },
  authenticatorSelection: object({ residentKey: text, requireResidentKey: flag, userVerification: text }),
  attestation: text,
});
