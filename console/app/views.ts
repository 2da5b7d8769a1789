/** The views of one app, what each is given, and the order of their tabs; the first is shown when the address names none. */
import type { Manifest } from '../../protocol/manifest.ts';
import type { Received } from '../../protocol/routes/api.ts';
import type { Address } from '../address.ts';

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

/** The views at an address that all apps share: there apps are used, and nothing is administered. */
export const SHARED_VIEWS: ReadonlySet<string> = new Set<AppViewId>(['tools', 'chat']);
