/** The views of one app, what each is given, and the order of their tabs; the first is shown when the address names none. */

import type { AppRecord } from '../../protocol/answer-types.ts';
import type { Manifest } from '../../protocol/manifest.ts';
import type { Received } from '../../protocol/routes/api.ts';
import type { Address } from '../address.ts';
import { type GatewayState, manages } from '../gateway-state.tsx';

/** The app's record, with its manifest, and the address of its page where it has one. */
export type AppDetail = Received<'GET /svc/_apps/:id'>;

/** The tools of the app; none while no version is live. */
export const toolsIn = ({ manifest }: AppDetail): Pick<Manifest, 'queries' | 'actions'> =>
  manifest ?? { queries: [], actions: [] };

/** `reload` reads the record again: after something that changes it. */
export type AppViewProps = { app: AppDetail; address: Address; reload: () => void };

export const APP_VIEWS = [
  { id: 'overview', text: 'Overview' },
  { id: 'tools', text: 'Tools' },
  { id: 'data', text: 'Data' },
  { id: 'code', text: 'Code' },
  { id: 'automations', text: 'Automations' },
  { id: 'logs', text: 'Logs' },
  { id: 'chat', text: 'Chat' },
  { id: 'files', text: 'Files' },
  { id: 'settings', text: 'Settings' },
] as const;

export type AppViewId = (typeof APP_VIEWS)[number]['id'];

const USED: ReadonlySet<string> = new Set<AppViewId>(['tools', 'chat']);

/** The views of an app for who is here: all of them for who manages it, else those in which it is used. */
export function viewsOf(state: Pick<GatewayState, 'isShared'>, app: Pick<AppRecord, 'role'>) {
  return APP_VIEWS.filter(({ id }) => manages(state, app) || (USED.has(id) && (id !== 'chat' || chats(app))));
}

/** Who has a role of its manifest, or only sees it, has no chat. */
export const chats = ({ role = 'editor' }: Pick<AppRecord, 'role'>) => role === 'editor' || role === 'manager';
