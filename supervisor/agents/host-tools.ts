/** Calls tools for the agents of an embedding host, without HTTP (specification, "Extension points"). */
import { SvcError } from '../../protocol/errors.ts';
import { callerOfTurn } from '../http/access/agent-tokens.ts';
import { ADMIN } from '../http/access/callers.ts';
import type { Caller } from '../http/access/grants.ts';
import type { McpAnswer } from '../mcp/tools.ts';
import { toolsOfCaller } from '../routes/agents/mcp-routes.ts';
import type { Services } from '../services.ts';
import { newTraceId } from '../tree/actor/call.ts';

export type HostToolCall = {
  /** `svc_describe`, `svc_read`, `svc_write`, `svc_sql_describe`, `svc_sql_read` or `svc_sql_write`. */
  name: string;
  args: Record<string, unknown>;
  /** Of a turn (`prepare`): may do what that turn may. Without one the agent may use every app. */
  token?: string | undefined;
  signal?: AbortSignal | undefined;
};

/** An agent of the host that works for its operator. */
const HOST_AGENT: Caller = { ...ADMIN, kind: 'agent', shown: () => ({ kind: 'agent', name: 'host' }), client: 'host' };

/** Rejects with `UNAUTHORIZED`, `UNKNOWN_TOOL` and `INVALID_INPUT`; every other failure is an answer with `isError`. */
export async function callHostTool(services: Services, call: HostToolCall): Promise<McpAnswer> {
  const { name, args, token, signal } = call;
  const caller = token === undefined ? HOST_AGENT : callerOfTurn(token, services.agentTokens);
  if (caller instanceof SvcError) throw caller;
  const tools = toolsOfCaller(services, caller, caller.client);
  return await tools.call({ name, args, traceId: newTraceId(), ...(signal && { signal }), confirm: tools.confirm });
}
