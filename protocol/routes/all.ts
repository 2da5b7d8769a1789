/** Lists the resources of the gateway, in the order of the reference. */
import type { Resource } from './row.ts';
import { SECRETS } from './secrets.ts';
import { TOKENS } from './tokens.ts';

const ALL = [SECRETS, TOKENS] as const;

/** Every row, with its literal types. */
export type AnyRow = (typeof ALL)[number]['rows'][number];

export const RESOURCES: readonly Resource[] = ALL;
