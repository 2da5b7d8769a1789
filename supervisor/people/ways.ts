/** Says how people sign in to their accounts, as the configuration has it (specification, "Signing in"). */
import { SvcError } from '../../protocol/errors.ts';
import { type Config, ConfigError } from '../config.ts';
import type { GatewayRole } from '../http/access/grants.ts';

/** An OpenID provider. Addresses and domains of `allow` are those of people who may make an account by it. */
export type ProviderSettings = {
  readonly issuer: string;
  readonly clientId: string;
  readonly clientSecret: string;
  readonly scopes: readonly string[];
  readonly allow: { readonly emails?: readonly string[]; readonly domains?: readonly string[] };
  readonly role: GatewayRole;
};
export type ProxySettings = NonNullable<Config['signIn']['proxy']>;

export type Ways = {
  readonly passwords: boolean;
  readonly passkeys: boolean;
  readonly providers: ReadonlyMap<string, ProviderSettings>;
  readonly proxy: ProxySettings | null;
};

/** Throws `ConfigError` where the environment lacks the secret of a provider. */
export function waysOf({ signIn }: Config, env: NodeJS.ProcessEnv = process.env): Ways {
  const { passkeys = true, passwords = true, providers = {}, proxy = null } = signIn;
  const all = Object.entries(providers).map(([name, { clientSecretEnv, scopes = [], allow = {}, role, ...rest }]) => {
    const clientSecret = env[clientSecretEnv];
    if (!clientSecret)
      throw new ConfigError(
        `"signIn.providers.${name}.clientSecretEnv" in the configuration names the environment variable ${clientSecretEnv}, which is not set.`,
        'signIn',
      );
    const asked = scopes.length > 0 ? ['openid', ...scopes] : ['openid', 'email', 'profile'];
    const settings = { ...rest, clientSecret, scopes: [...new Set(asked)], allow, role: role ?? 'member' };
    return [name, settings satisfies ProviderSettings] as const;
  });
  return { passkeys, passwords, providers: new Map(all), proxy };
}

/** Throws `FORBIDDEN` where nobody signs in this way. */
export function demandWay(ways: Ways, way: 'passwords' | 'passkeys'): void {
  if (ways[way]) return;
  const what = way === 'passwords' ? 'Passwords' : 'Passkeys';
  throw new SvcError(
    'FORBIDDEN',
    `${what} are off at this gateway ("signIn" in its configuration). Sign in another way, or ask an owner for a link.`,
    { path: way === 'passwords' ? 'password' : 'passkey' },
  );
}
