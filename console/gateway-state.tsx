/** What every view knows of the gateway: its apps and its processes, polled while the page is visible. */
import { createContext } from 'preact';
import { useContext } from 'preact/hooks';
import type { AppRecord } from '../protocol/answer-types.ts';
import type { SystemStatus } from '../protocol/routes/operations/system-rows.ts';
import type { GatewayError } from './gateway.ts';

export type GatewayState = {
  /** Sorted by id; undefined until they were read. */
  apps: readonly AppRecord[] | undefined;
  /** Undefined until it was read, and where this origin may not ask for it. */
  system: SystemStatus | undefined;
  error: GatewayError | undefined;
  /** This address is one that all apps' pages share: it may use the apps and administers nothing. */
  isShared: boolean;
  /** The console's own address. */
  consoleAddress: string;
  /** False where the gateway's host asks who calls: pages of apps need no session of their own then. */
  hasSessions: boolean;
  /** Reads both again now: after something that changes them. */
  reload: () => void;
};

export const GatewayContext = createContext<GatewayState>({
  apps: undefined,
  system: undefined,
  error: undefined,
  isShared: false,
  consoleAddress: '',
  hasSessions: true,
  reload: () => {},
});

export const useGateway = (): GatewayState => useContext(GatewayContext);
