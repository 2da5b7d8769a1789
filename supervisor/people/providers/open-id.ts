/** Speaks OpenID Connect with the providers of the configuration (specification, "Signing in"): authorization code with PKCE, state and nonce. */
import type { ClientAuth, Configuration, IDToken } from 'openid-client';
import type { Logger } from 'pino';
import { SvcError } from '../../../protocol/errors.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import { inWords } from '../../notices/delivery.ts';
import type { Said } from '../identities.ts';
import type { ProviderSettings, Ways } from '../ways.ts';
import { boundedFetch } from './bounded-fetch.ts';
import { saidIn } from './vouched.ts';

/** What is kept of a sign-in while the browser is at the provider. */
export type Journey = { provider: string; redirectUri: string; verifier: string; nonce: string };

type OpenIdOptions = {
  providers: () => Ways['providers'];
  log: Logger;
  /** A clock in milliseconds that never goes back. */
  elapsed?: () => number;
};

export class OpenId {
  readonly #options: OpenIdOptions;
  readonly #elapsed: () => number;
  readonly #known = new Map<string, { since: number; configuration: Promise<Configuration> }>();

  constructor(options: OpenIdOptions) {
    this.#options = options;
    this.#elapsed = options.elapsed ?? (() => performance.now());
  }

  /** Throws `NOT_FOUND`. */
  settings(name: string): ProviderSettings {
    const settings = this.#options.providers().get(name);
    if (settings !== undefined) return settings;
    throw new SvcError(
      'NOT_FOUND',
      `This gateway has no provider "${name.slice(0, 80)}" ("signIn.providers" in its configuration).`,
    );
  }

  /**
   * Where a browser goes to sign in, once it has the `state` that `keep` answers for the journey. Rejects with `NOT_FOUND`, and with
   * `FETCH_FAILED` where the provider cannot be asked.
   */
  async begin(provider: string, redirectUri: string, keep: (journey: Journey) => string): Promise<string> {
    const { scopes } = this.settings(provider);
    return this.#asking(provider, async (configuration) => {
      const library = await import('openid-client');
      const journey = {
        provider,
        redirectUri,
        verifier: library.randomPKCECodeVerifier(),
        nonce: library.randomNonce(),
      };
      return library.buildAuthorizationUrl(configuration, {
        redirect_uri: redirectUri,
        scope: scopes.join(' '),
        code_challenge: await library.calculatePKCECodeChallenge(journey.verifier),
        code_challenge_method: 'S256',
        nonce: journey.nonce,
        state: keep(journey),
      }).href;
    });
  }

  /**
   * Who signed in at the provider. `query` is that of the address at which the browser came back. Rejects with `FORBIDDEN` where
   * they did not, and with `FETCH_FAILED` where the provider cannot be asked, or what it answers is wrong.
   */
  finish({ provider, redirectUri, verifier, nonce }: Journey, query: URLSearchParams): Promise<Said> {
    return this.#asking(provider, async (configuration) => {
      const library = await import('openid-client');
      const tokens = await library.authorizationCodeGrant(configuration, new URL(`${redirectUri}?${query}`), {
        pkceCodeVerifier: verifier,
        expectedNonce: nonce,
        expectedState: query.get('state') ?? '',
        idTokenExpected: true,
      });
      const claims = tokens.claims() as IDToken;
      const hasMore = claims.email === undefined && configuration.serverMetadata().userinfo_endpoint !== undefined;
      const more = hasMore ? await library.fetchUserInfo(configuration, tokens.access_token, claims.sub) : {};
      const said = saidIn({ ...more, ...claims }, { provider, issuer: claims.iss });
      if (said === null) throw new Error('The subject is empty or too long.');
      return said;
    });
  }

  async #asking<T>(name: string, work: (configuration: Configuration) => Promise<T>): Promise<T> {
    try {
      return await work(await this.#configuration(name));
    } catch (error) {
      throw this.#inWords(name, error);
    }
  }

  /** What the provider says of itself. A failure is asked again. */
  #configuration(name: string): Promise<Configuration> {
    const settings = this.settings(name);
    const known = this.#known.get(name);
    if (known !== undefined && this.#elapsed() - known.since < LIMITS.providerKnownMs) return known.configuration;
    const configuration = discover(settings);
    this.#known.set(name, { since: this.#elapsed(), configuration });
    configuration.catch(() => this.#known.delete(name));
    return configuration;
  }

  #inWords(name: string, error: unknown): SvcError {
    if (error instanceof SvcError) return error;
    const {
      code,
      error: said,
      cause,
      message,
    } = error as { code?: string; error?: string; message: string; cause?: Error };
    if (code === 'OAUTH_AUTHORIZATION_RESPONSE_ERROR' && said === 'access_denied')
      return new SvcError(
        'FORBIDDEN',
        `The sign-in at "${name}" was cancelled, or "${name}" does not let you in here.`,
      );
    // What came of the person is in neither message.
    const reason = [message, cause?.message].filter(Boolean).join(': ');
    this.#options.log.warn({ provider: name, code, error: said, reason }, 'A sign-in at a provider failed.');
    return new SvcError('FETCH_FAILED', `Signing in at "${name}" failed: ${reasonOf(code, said, error, cause)}`);
  }
}

/** In words for who signs in; the log has the rest. */
function reasonOf(code: string | undefined, said: string | undefined, error: unknown, cause: unknown): string {
  if (said !== undefined)
    return `it answered with the error "${said.slice(0, 80)}". An owner of the gateway finds more in its log.`;
  if (code === 'OAUTH_JWT_TIMESTAMP_CHECK_FAILED')
    return `its clock and that of the gateway differ by more than ${LIMITS.clockSkewSeconds} s. Ask an owner to compare them.`;
  if (code?.startsWith('OAUTH_') && code !== 'OAUTH_TIMEOUT')
    return 'its answer is not what was asked for, or not to be trusted. An owner of the gateway finds more in its log.';
  return `${inWords(code === 'OAUTH_TIMEOUT' ? { name: 'TimeoutError' } : (cause ?? error))} Try again later, or sign in another way.`;
}

async function discover({ issuer, clientId, clientSecret }: ProviderSettings): Promise<Configuration> {
  const library = await import('openid-client');
  const url = new URL(issuer);
  const metadata = { [library.clockTolerance]: LIMITS.clockSkewSeconds };
  // Without a list it is the first, by OpenID Connect Discovery.
  const authentication: ClientAuth = (server, ...rest) => {
    const { token_endpoint_auth_methods_supported: known = ['client_secret_basic'] } = server;
    const isBasic = known.includes('client_secret_basic');
    (isBasic ? library.ClientSecretBasic : library.ClientSecretPost)(clientSecret)(server, ...rest);
  };
  const configuration = await library.discovery(url, clientId, metadata, authentication, {
    [library.customFetch]: boundedFetch,
    timeout: LIMITS.providerWaitMs / 1000,
    // `boundedFetch` sees to it that it is on this machine.
    execute: url.protocol === 'http:' ? [library.allowInsecureRequests] : [],
  });
  library.enableNonRepudiationChecks(configuration);
  return configuration;
}
