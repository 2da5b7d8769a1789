/** Reads the `OTEL_…` variables that decide whether, where and which traces are sent. */
import type { SpanContext } from '../../protocol/wire/trace-context.ts';

export type Environment = Readonly<Record<string, string | undefined>>;

export type TracingSettings = {
  endpoint: string;
  protocol: 'http/json' | 'http/protobuf';
  /** Whether a trace is recorded; `parent` is what the request came with. */
  sampler: Sampler;
};

export type Sampler = (traceId: string, parent: SpanContext | null) => boolean;

/** Null where no traces are wanted. Throws an `Error` that names the variable which cannot be followed. */
export function tracingSettings(env: Environment): TracingSettings | null {
  const read = (name: string) => env[`OTEL_${name}`]?.trim() || undefined;
  const named = read('EXPORTER_OTLP_TRACES_ENDPOINT') ? 'EXPORTER_OTLP_TRACES_ENDPOINT' : 'EXPORTER_OTLP_ENDPOINT';
  const endpoint = read(named);
  if (endpoint === undefined || read('SDK_DISABLED')?.toLowerCase() === 'true') return null;
  if ((read('TRACES_EXPORTER') ?? 'otlp') !== 'otlp') return null;
  if (!/^https?:\/\//.test(endpoint) || !URL.canParse(endpoint))
    throw new Error(`OTEL_${named} is no address such as "http://localhost:4318".`);
  const protocol = read('EXPORTER_OTLP_TRACES_PROTOCOL') ?? read('EXPORTER_OTLP_PROTOCOL') ?? 'http/protobuf';
  if (protocol !== 'http/json' && protocol !== 'http/protobuf')
    throw new Error(`OTEL_EXPORTER_OTLP_PROTOCOL must be "http/protobuf" or "http/json"; "${protocol}" is not spoken.`);
  return { endpoint, protocol, sampler: samplerOf(read('TRACES_SAMPLER'), read('TRACES_SAMPLER_ARG')) };
}

function samplerOf(name = 'parentbased_always_on', argument = '1'): Sampler {
  const [, byParent, kind = ''] = /^(parentbased_)?(always_on|always_off|traceidratio)$/.exec(name) ?? [];
  if (kind === '') throw new Error(`OTEL_TRACES_SAMPLER has the unknown name "${name}".`);
  const ratio = kind === 'always_on' ? 1 : kind === 'always_off' ? 0 : Number(argument);
  if (!(ratio >= 0 && ratio <= 1)) throw new Error('OTEL_TRACES_SAMPLER_ARG must be a number from 0 to 1.');
  // By the digits that W3C Trace Context says are random: all programs that sample so decide alike.
  const root: Sampler = (traceId) => Number.parseInt(traceId.slice(-13), 16) / 2 ** 52 >= 1 - ratio;
  return byParent === undefined ? root : (traceId, parent) => parent?.sampled ?? root(traceId, null);
}
