/** Reads how apps describe themselves: all of them, or one with its queries and actions. */
import type { Received } from '../../protocol/routes/api.ts';
import type { Client } from './client.ts';
import { refused } from './received.ts';

type Described = Received<'POST /svc/_tool/svc_describe'>['data'];
/** An app in the list of all, or why it cannot be described. */
export type AppSummary = Extract<Described, { apps: unknown }>['apps'][number];
/** An app with its queries and actions. */
export type DescribedApp = Extract<Described, { queries: unknown }>;

export async function describeApps(client: Client): Promise<AppSummary[]> {
  const { data } = await client.call('POST /svc/_tool/svc_describe', { body: {} });
  if (!('app' in data)) return data.apps;
  throw refused('something else than the descriptions of all apps');
}

/** Of the draft in a workspace, if one is named. */
export async function describeApp(client: Client, app: string, sid?: string): Promise<DescribedApp> {
  const { data } = await client.call('POST /svc/_tool/svc_describe', { params: { sid }, body: { app } });
  if ('queries' in data) return data;
  throw refused(`something else than a description of ${app}`);
}
