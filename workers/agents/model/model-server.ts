/** Connects a model server to the `ai` library. The libraries are loaded with the first model. */
import type { LanguageModel } from 'ai';
import type { ModelApi, RunnerSpec } from '../../../protocol/agents/agents.ts';
import { SvcError } from '../../../protocol/errors.ts';
import { LIMITS } from '../../../protocol/limits.ts';

/** Told why a request failed that the library makes again, and how often in a row. */
type Failing = (why: string, attempt: number) => Promise<void>;

/** Rejects with `NO_RUNNER` for a runner without an address. */
export async function modelOf(runner: RunnerSpec, model: string, failing: Failing): Promise<LanguageModel> {
  const { name, baseUrl, apiKey, api = 'chat' } = runner;
  if (baseUrl === undefined) throw new SvcError('NO_RUNNER', `The runner ${name} has no baseUrl.`);
  return await MAKE[api]({ name, baseURL: baseUrl.replace(/\/$/, ''), fetch: fetchOf(failing), apiKey }, model);
}

type Server = { name: string; baseURL: string; fetch: typeof fetch; apiKey: string | undefined };

const MAKE: Record<ModelApi, (server: Server, model: string) => Promise<LanguageModel>> = {
  chat: async ({ apiKey, ...server }, model) => {
    const { createOpenAICompatible } = await import('@ai-sdk/openai-compatible');
    const key = apiKey === undefined ? {} : { apiKey };
    return createOpenAICompatible({ ...server, ...key, includeUsage: true }).chatModel(model);
  },
  // Without a key these two look for one in the environment, and fail without it.
  responses: async ({ apiKey = 'none', ...server }, model) => {
    const { createOpenAI } = await import('@ai-sdk/openai');
    return createOpenAI({ ...server, apiKey }).responses(model);
  },
  messages: async ({ apiKey = 'none', ...server }, model) => {
    const { createAnthropic } = await import('@ai-sdk/anthropic');
    return createAnthropic({ ...server, apiKey }).messages(model);
  },
};

/** The longest wait that a server may ask for before a retry, seconds. */
const RETRY_AFTER_SECONDS = 5;

/** Those that the library takes for passing. */
const isPassing = (status: number): boolean => status === 408 || status === 409 || status === 429 || status >= 500;

/** As `boundedFetch`; tells of failures that may pass. */
function fetchOf(failing: Failing): typeof fetch {
  let failures = 0;
  return async (address, init) => {
    try {
      const answer = await boundedFetch(address, init);
      if (!isPassing(answer.status)) failures = 0;
      else await failing(`answered ${answer.status}`, ++failures);
      return answer;
    } catch (error) {
      if (init?.signal?.aborted !== true) await failing('could not be reached', ++failures);
      throw error;
    }
  };
}

/** As `fetch`, but bounds endless answers, and refuses servers that ask for a much later retry. */
const boundedFetch: typeof fetch = async (address, init) => {
  const answer = await fetch(address, init);
  const headers = new Headers(answer.headers);
  if (!(Number(headers.get('retry-after')) <= RETRY_AFTER_SECONDS)) headers.delete('retry-after');
  headers.delete('retry-after-ms');
  let bytes = 0;
  const bounded = answer.body?.pipeThrough(
    new TransformStream<Uint8Array, Uint8Array>({
      transform(chunk, controller) {
        bytes += chunk.length;
        if (bytes <= LIMITS.agentTurnBytes) controller.enqueue(chunk);
        else
          controller.error(
            new SvcError('AGENT_FAILED', `The model server sent more than ${LIMITS.agentTurnBytes} bytes.`),
          );
      },
    }),
  );
  const { status, statusText } = answer;
  return new Response(bounded ?? null, { status, statusText, headers });
};

/** The library's error as the error of a turn. */
export function modelError(error: unknown): SvcError {
  const { lastError, statusCode, message, cause } = (error ?? {}) as {
    lastError?: unknown;
    statusCode?: number;
    message?: string;
    cause?: { code?: string; cause?: { code?: string } };
  };
  if (lastError !== undefined) return modelError(lastError);
  if (error instanceof SvcError) return error;
  if (cause instanceof SvcError) return cause;
  const words = message ?? (typeof error === 'string' ? error : (JSON.stringify(error) ?? 'no reason given'));
  if (statusCode === 401 || statusCode === 403)
    return failed(`The model server does not accept the key (${statusCode}): ${words}`);
  if (statusCode !== undefined && statusCode >= 400) return failed(`The model server answered ${statusCode}: ${words}`);
  const code = cause?.code ?? cause?.cause?.code;
  if (code !== undefined) return failed(`The model server cannot be reached, or broke off (${code}).`);
  return failed(`The model server's answer cannot be used: ${words}`);
}

function failed(message: string): SvcError {
  return new SvcError('AGENT_FAILED', message);
}
