/** What every view knows of the gateway: its apps and its processes, polled while the page is visible. */
import { createContext } from 'preact';
import { useContext } from 'preact/hooks';
import type { AppRecord } from '../protocol/answer-types.ts';
import type { Received } from '../protocol/routes/api.ts';
import type { SystemStatus } from '../protocol/routes/operations/system-rows.ts';
import type { NamedPerson } from '../protocol/wire/handler-caller.ts';
import type { GatewayError } from './gateway.ts';

export type GatewayState = {
  /** Sorted by id; undefined until they were read. */
  apps: readonly AppRecord[] | undefined;
  /** Undefined until it was read, and where this origin may not ask for it. */
  system: SystemStatus | undefined;
  error: GatewayError | undefined;
  /** It may use the apps and administers nothing: at an address that all apps' pages share. */
  isShared: boolean;
  /** Who is signed in; null for the administrator, and where a host says who people are. */
  person: Received<'GET /svc/_session'>['person'];
  /** Somebody has an account, or a host says who people are. */
  hasPeople: boolean;
  /** How people sign in; undefined where a host says who people are. */
  ways: Received<'GET /svc/_session'>['ways'] | undefined;
  /** The console's own address. */
  consoleAddress: string;
  /** False where the gateway's host asks who calls: pages of apps need no session of their own then. */
  hasSessions: boolean;
  /** Reads all of it again now: after something that changes it. */
  reload: () => void;
};

export const GatewayContext = createContext<GatewayState>({
  apps: undefined,
  system: undefined,
  error: undefined,
  isShared: false,
  person: null,
  hasPeople: true,
  ways: undefined,
  consoleAddress: '',
  hasSessions: true,
  reload: () => {},
});

/** Whether everything may be done here, as by an owner. */
export const isOwners = ({ isShared, person }: Pick<GatewayState, 'isShared' | 'person'>): boolean =>
  !isShared && (person === null || person.role === 'owner');

/** Whether new apps may be made here. */
export const makesApps = (state: Pick<GatewayState, 'isShared' | 'person'>): boolean =>
  isOwners(state) || (!state.isShared && state.person?.role === 'author');

/**
 * Whether something is of who is signed in; `by` is whose it is. Where a host says who people are, that is not known, and
 * everything counts as theirs.
 */
export const isOwn = ({ person, ways }: Pick<GatewayState, 'person' | 'ways'>, by: NamedPerson | undefined): boolean =>
  ways === undefined || by?.id === person?.id;

/** Whether an app may be changed here, and not only used; `role` is that of who is no owner. */
export const manages = ({ isShared }: Pick<GatewayState, 'isShared'>, { role = 'manager' }: Pick<AppRecord, 'role'>) =>
  !isShared && role === 'manager';

export const useGateway = (): GatewayState => useContext(GatewayContext);
