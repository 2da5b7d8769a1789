/** Asks a model server for its models: `GET <baseUrl>/models`, which servers of all three protocols answer alike. */
import type { AgentModel } from '../../protocol/agents/agents.ts';
import { SvcError } from '../../protocol/errors.ts';
import { isRecord } from '../../protocol/shapes/shape.ts';

/** Rejects with `AGENT_FAILED` and a message for people. Sends the key in the form of each protocol. */
export async function listModels(baseUrl: string, key: string | undefined, signal: AbortSignal): Promise<AgentModel[]> {
  const address = `${baseUrl.replace(/\/$/, '')}/models`;
  const keyed = key === undefined ? {} : { authorization: `Bearer ${key}`, 'x-api-key': key };
  let body: unknown;
  try {
    const response = await fetch(address, { headers: { 'anthropic-version': '2023-06-01', ...keyed }, signal });
    if (!response.ok) throw new SvcError('AGENT_FAILED', `The model server answered ${response.status} to ${address}.`);
    body = await response.json();
  } catch (error) {
    if (error instanceof SvcError) throw error;
    throw new SvcError('AGENT_FAILED', `The model server does not tell its models at ${address}.`, { cause: error });
  }
  const models = isRecord(body) && Array.isArray(body.data) ? (body.data as unknown[]) : [];
  return models.flatMap((model) => {
    if (!isRecord(model) || typeof model.id !== 'string') return [];
    const { id, display_name: name } = model;
    return [typeof name === 'string' ? { id, name } : { id }];
  });
}
