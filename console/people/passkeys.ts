/** Has the browser make and use passkeys. */
import type { Received, Sent } from '../../protocol/routes/api.ts';

/** Whether it can. Over plain HTTP it can on its own machine only; older ones do not read the gateway's options. */
export const canUsePasskeys =
  typeof PublicKeyCredential !== 'undefined' && 'parseCreationOptionsFromJSON' in PublicKeyCredential;

/** Rejects where the user made none, in words. */
export async function makePasskey(
  options: Received<'POST /svc/_auth/passkeys/options'>,
): Promise<Sent<'POST /svc/_auth/passkeys'>['body']['passkey']> {
  const publicKey = PublicKeyCredential.parseCreationOptionsFromJSON(
    options as unknown as PublicKeyCredentialCreationOptionsJSON,
  );
  return await asked(navigator.credentials.create({ publicKey }), 'No passkey was made; try again.');
}

/** Rejects where the user chose none, in words. */
export async function usePasskey(
  options: Received<'POST /svc/_auth/passkey/options'>,
): Promise<Sent<'POST /svc/_auth/passkey'>['body']['passkey']> {
  const publicKey = PublicKeyCredential.parseRequestOptionsFromJSON(options);
  return await asked(
    navigator.credentials.get({ publicKey }),
    `No passkey was used. A passkey works only at the address where it was made; this one is ${location.hostname}. Where this device has none, sign in with a password, or ask an owner of this gateway for a link.`,
  );
}

// biome-ignore lint/suspicious/noExplicitAny: the browser says no more of what `toJSON` gives.
async function asked(credential: Promise<Credential | null>, none: string): Promise<any> {
  try {
    return ((await credential) as PublicKeyCredential).toJSON();
  } catch (error) {
    const { name, message } = error as Error;
    if (name === 'NotAllowedError') throw new Error(none);
    if (name === 'InvalidStateError') throw new Error('This device has a passkey of this account already.');
    throw new Error(`The browser refused: ${message}`);
  }
}
