/** What the supervision tree is told by the gateway: its folders, its limits, and whom it reports to. */

import type { EgressSettings } from '../../protocol/rules/egress.ts';

export type TreeOptions = {
  /** Where an app's things are. */
  paths(app: string, versionId: string): { codeDir: string; preparedDir: string; dataFile: string };
  /** The folders that handler hosts may read; all of them exist when the tree starts. */
  codeDirs: string[];
  /** Empty and for this user alone; removed at the end. */
  socketFolder: string;
  handlerHosts: number;
  maxLiveActors: number;
  actorMemoryMb: number;
  actorIdleMs: number;
  mailboxLimit: number;
  maxResultBytes: number;
  durability: 'full' | 'normal';
  /** What `ctx.fetch` may reach, whatever the app. */
  egress: EgressSettings;
  /** The port that the gateway is reached at; null where it is not known, such as inside a host's own server. */
  gatewayPort(): number | null;
  log(level: 'info' | 'warn' | 'error', message: string, app?: string): void;
  appLog(app: string, line: string): void;
  /** The writer is back after a restart, or runs for the first time. */
  onWriterReady(): void;
  /** The writer died: what the app had asked of it may be stored or not. */
  onWriterLost(app: string): void;
  /** The writer cannot be kept running: the daemon must end. */
  onFatal(reason: string): void;
  /** A process came into being or is gone: what the next gateway has to know should this one be killed. */
  onProcess(pid: number, role: string, alive: boolean): void;
};
