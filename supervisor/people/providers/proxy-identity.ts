/** Reads who asks from what a trusted proxy adds to a request: a header, or a signed token (specification, "Signing in"). */
import { isIP } from 'node:net';
import type { JWTPayload, JWTVerifyGetKey } from 'jose';
import { SvcError } from '../../../protocol/errors.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import { addressesOf, bareAddress } from '../../../protocol/rules/ip-addresses.ts';
import type { Exchange } from '../../edge/edge.ts';
import { inWords } from '../../notices/delivery.ts';
import type { Said } from '../identities.ts';
import { addressKey } from '../people.ts';
import type { ProxySettings } from '../ways.ts';
import { boundedFetch } from './bounded-fetch.ts';
import { addressIn, saidIn } from './vouched.ts';

/** A login name or an address: one word. Where the header came twice there is a comma. */
const LOGIN = /^[!-+\--~]{1,255}$/;
/** Those with a public key, so that who knows that one signs nothing. */
const ALGORITHMS = [
  'RS256',
  'RS384',
  'RS512',
  'PS256',
  'PS384',
  'PS512',
  'ES256',
  'ES384',
  'ES512',
  'EdDSA',
  'Ed25519',
];

export type TrustedProxy = {
  /** Whether a request comes with the proxy's word on who asks. */
  names(exchange: Exchange): boolean;
  /** Rejects with `FORBIDDEN` where it does not, or where that is not to be trusted; with `FETCH_FAILED` without its keys. */
  said(exchange: Exchange): Promise<Said>;
};

export function proxyIdentity(settings: ProxySettings): TrustedProxy {
  return 'header' in settings ? byHeader(settings) : byToken(settings);
}

function byHeader({ header, from }: Extract<ProxySettings, { header: string }>): TrustedProxy {
  const name = header.toLowerCase();
  const networks = addressesOf(from);
  // Of the connection itself: anybody can write what other headers say of addresses.
  const names = (exchange: Exchange): boolean => {
    const address = bareAddress(exchange.remoteAddress);
    const family = isIP(address) === 4 ? 'ipv4' : 'ipv6';
    return exchange.header(name) !== undefined && isIP(address) !== 0 && networks.check(address, family);
  };
  return {
    names,
    async said(exchange) {
      const login = exchange.header(name) ?? '';
      if (!names(exchange))
        throw refused(`the header ${header} is missing, or does not come from a network in "signIn.proxy.from"`);
      if (!LOGIN.test(login)) throw refused(`the header ${header} holds no login name, or more than one`);
      const email = addressIn(login);
      const subject = email === null ? login : addressKey(login);
      return { provider: null, issuer: `header:${name}`, subject, email, name: login.split('@', 1)[0] || login };
    },
  };
}

function byToken({
  jwtHeader,
  jwksUrl,
  issuer,
  audience,
}: Extract<ProxySettings, { jwtHeader: string }>): TrustedProxy {
  const name = jwtHeader.toLowerCase();
  let keys: JWTVerifyGetKey | null = null;
  const claimsOf = async (token: string): Promise<JWTPayload> => {
    const { createRemoteJWKSet, customFetch, jwtVerify } = await import('jose');
    keys ??= createRemoteJWKSet(new URL(jwksUrl), {
      timeoutDuration: LIMITS.providerWaitMs,
      [customFetch]: boundedFetch,
    });
    const { payload } = await jwtVerify(token, keys, {
      issuer,
      audience,
      algorithms: ALGORITHMS,
      clockTolerance: LIMITS.clockSkewSeconds,
      requiredClaims: ['exp'],
    });
    return payload;
  };
  return {
    names: (exchange) => exchange.header(name) !== undefined,
    async said(exchange) {
      const token = exchange.header(name);
      if (token === undefined) throw refused(`the header ${jwtHeader} is missing`);
      const claims = await claimsOf(token).catch((error) => {
        throw refusalOf(error, jwtHeader);
      });
      // The proxy lets in only whom it knows, so its addresses count unless it says that they do not.
      const said = saidIn(claims, { provider: null, issuer }, true);
      if (said === null) throw refused(`the token in ${jwtHeader} names nobody ("sub")`);
      return said;
    },
  };
}

const SKEW = `by more than the ${LIMITS.clockSkewSeconds} s that clocks may differ: compare those of the proxy and of the gateway`;

function refusalOf(error: unknown, header: string): SvcError {
  const { code, claim, cause } = error as { code?: string; claim?: string; cause?: unknown };
  const token = `the token in ${header}`;
  if (code === 'ERR_JWT_EXPIRED') return refused(`${token} has expired, ${SKEW}`);
  if (code === 'ERR_JWT_CLAIM_VALIDATION_FAILED' && claim === 'nbf')
    return refused(`${token} is not valid yet, ${SKEW}`);
  if (code === 'ERR_JWT_CLAIM_VALIDATION_FAILED')
    return refused(`"${claim}" of ${token} is missing, or not the configured one`);
  if (code === 'ERR_JWKS_NO_MATCHING_KEY' || code === 'ERR_JWS_SIGNATURE_VERIFICATION_FAILED')
    return refused(`${token} is not signed with a key of the proxy`);
  if (code?.startsWith('ERR_JWS') || code?.startsWith('ERR_JWT') || code === 'ERR_JOSE_ALG_NOT_ALLOWED')
    return refused(`${token} is none, or not signed as it should be`);
  const why = inWords(code === 'ERR_JWKS_TIMEOUT' ? { name: 'TimeoutError' } : (cause ?? error));
  return new SvcError('FETCH_FAILED', `The keys of the proxy ("signIn.proxy.jwksUrl") cannot be fetched: ${why}`);
}

function refused(why: string): SvcError {
  return new SvcError('FORBIDDEN', `The proxy signs nobody in: ${why}.`);
}
