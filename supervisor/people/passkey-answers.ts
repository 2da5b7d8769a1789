/**
 * Checks what devices answer to the challenges of passkeys (specification, "Signing in"), with a package that the first answer loads:
 * that takes longer than a start may.
 */
import type { AuthenticationResponseJSON, RegistrationResponseJSON } from '@simplewebauthn/server';
import type { Passkey } from './records.ts';

/** ES256, which all devices have, and RS256, which some of Windows have alone. As COSE numbers them. */
export const ALGORITHMS: number[] = [-7, -257];

/** What an answer must be about: the challenge, the pages that may have asked, and their host. */
export type Asked = { challenge: string; origins: string[]; host: string };
/** What the package wants of an answer, but for extensions, of which none is asked for. */
export type MadeAnswer = Omit<RegistrationResponseJSON, 'clientExtensionResults'>;
export type UsedAnswer = Omit<AuthenticationResponseJSON, 'clientExtensionResults'>;
const NO_EXTENSIONS = { clientExtensionResults: {} };

/** The challenge that an answer says it is for; null for one that is none. */
export function challengeOf({ response }: MadeAnswer | UsedAnswer): string | null {
  try {
    const { challenge } = JSON.parse(Buffer.from(response.clientDataJSON, 'base64url').toString());
    return typeof challenge === 'string' ? challenge : null;
  } catch {
    return null;
  }
}

/** What a device says of the passkey that it made; null where that is not true, or not of what was asked. */
export async function checkMade(
  response: MadeAnswer,
  { challenge, origins, host }: Asked,
): Promise<Pick<Passkey, 'credentialId' | 'publicKey' | 'counter' | 'synced'> | null> {
  const [{ verifyRegistrationResponse }, { decodeAttestationObject }] = await Promise.all([
    import('@simplewebauthn/server'),
    import('@simplewebauthn/server/helpers'),
  ]);
  try {
    const attestation = decodeAttestationObject(Buffer.from(response.response.attestationObject, 'base64url'));
    // Nobody asked who made the device. For certificates, the package would fetch addresses that they name.
    const isPlain = ['none', 'packed'].includes(attestation.get('fmt'));
    if (!isPlain || attestation.get('attStmt').get('x5c') !== undefined) return null;
    const { verified, registrationInfo } = await verifyRegistrationResponse({
      response: { ...response, ...NO_EXTENSIONS },
      expectedChallenge: challenge,
      expectedOrigin: origins,
      expectedRPID: host,
      supportedAlgorithmIDs: ALGORITHMS,
    });
    if (!verified || registrationInfo.credential.id !== response.id) return null;
    const { credential, credentialBackedUp } = registrationInfo;
    const publicKey = Buffer.from(credential.publicKey).toString('base64url');
    return { credentialId: credential.id, publicKey, counter: credential.counter, synced: credentialBackedUp };
  } catch {
    return null;
  }
}

/** What a device says of the passkey that it used; null where it is another one, or the rest is not as asked. */
export async function checkUsed(
  response: UsedAnswer,
  { credentialId, publicKey, handle, host: own }: Passkey,
  { challenge, origins, host }: Asked,
): Promise<Pick<Passkey, 'counter' | 'synced'> | null> {
  if (response.id !== credentialId || response.response.userHandle !== handle || own !== host) return null;
  const { verifyAuthenticationResponse } = await import('@simplewebauthn/server');
  try {
    const { verified, authenticationInfo } = await verifyAuthenticationResponse({
      response: { ...response, ...NO_EXTENSIONS },
      expectedChallenge: challenge,
      expectedOrigin: origins,
      expectedRPID: host,
      // The counter is for the caller to judge, who then knows that the rest is true.
      credential: { id: credentialId, publicKey: Buffer.from(publicKey, 'base64url'), counter: 0 },
    });
    return verified ? { counter: authenticationInfo.newCounter, synced: authenticationInfo.credentialBackedUp } : null;
  } catch {
    return null;
  }
}

/** Whether a device that counts has counted less than before: it is a copy, or there is one. */
export function wentBack(before: number, now: number): boolean {
  return (before > 0 || now > 0) && now <= before;
}
