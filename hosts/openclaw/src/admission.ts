/** Decides which requests come with the host's own token or password (specification, "Hosts that exist"). */
import { hash, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { HostConfig } from './host-api.ts';

const BEARER = /^Bearer +(\S+) *$/i;

/** The secrets with which the host lets programs in; none where it asks an identity provider or a proxy, or knows no secret. */
export function hostSecrets({ gateway }: HostConfig, env: NodeJS.ProcessEnv): string[] {
  const { mode = 'token', token, password } = gateway?.auth ?? {};
  const given =
    mode === 'token'
      ? [token, env.OPENCLAW_GATEWAY_TOKEN]
      : mode === 'password'
        ? [password, env.OPENCLAW_GATEWAY_PASSWORD]
        : [];
  return given.filter((one) => typeof one === 'string' && one !== '') as string[];
}

/**
 * Whether a request is the host's own. Where the host lets everyone in (mode `none`), programs are; a browser, which any website can
 * make send requests, still needs a session.
 */
export function isOfHost(req: IncomingMessage, config: HostConfig, env: NodeJS.ProcessEnv): boolean {
  if (config.gateway?.auth?.mode === 'none') {
    const { origin, cookie, 'sec-fetch-site': site } = req.headers;
    return origin === undefined && cookie === undefined && site === undefined;
  }
  const shown = BEARER.exec(req.headers.authorization ?? '')?.[1];
  if (shown === undefined) return false;
  const digest = hash('sha256', shown, 'buffer');
  return hostSecrets(config, env).some((secret) => timingSafeEqual(digest, hash('sha256', secret, 'buffer')));
}
