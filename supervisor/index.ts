/** Exports what an embedding program imports, and loads little of it before it is used. */
import type { RunningGateway, ServeOptions } from './serve.ts';

export type { RunRecord, RunState } from '../protocol/automations/runs.ts';
export type { ErrorBody, ErrorCode } from '../protocol/errors.ts';
export { ERROR_CODES, SvcError } from '../protocol/errors.ts';
export type { Capability } from '../protocol/routes/row.ts';
export type { HostToolCall } from './agents/host-tools.ts';
export type { DraftFinding } from './authoring/draft-check.ts';
export type { Config } from './config.ts';
export { ConfigError } from './config.ts';
export type {
  ConversationRunner,
  ConversationTurn,
  ExtensionPoints,
  FireAutomation,
  FireAutomationFactory,
  FireContext,
  FireLog,
  FireResult,
  GatewayKind,
  HostFire,
  PreparedTurn,
  RunnerStatus,
  RunQuery,
} from './extension-points.ts';
export { buildGateway, type Gateway, type GatewayOptions } from './gateway.ts';
export type { Admits, Authorize, HostNeed, HostRequest } from './http/access/callers.ts';
export type { AppRole, GatewayRole } from './http/access/grants.ts';
export type { Identify, Person } from './http/access/person.ts';
export type { McpAnswer } from './mcp/tools.ts';
export type { RunningGateway, ServeOptions } from './serve.ts';

/** Builds a gateway, starts it and listens. Rejects with `EADDRINUSE` and the like, `DATA_LOCKED`, or `ConfigError`. */
export async function serve(options: ServeOptions): Promise<RunningGateway> {
  return (await import('./serve.ts')).serve(options);
}
