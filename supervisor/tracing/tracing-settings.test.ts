import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Environment, tracingSettings } from './tracing-settings.ts';

const ENDPOINT = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:4318' };
const HIGH = '0'.repeat(18) + 'f'.repeat(14);
const LOW = 'f'.repeat(18) + '0'.repeat(14);

test('traces are on if an endpoint is named and no variable turns them off', () => {
  const off: Environment[] = [
    {},
    { OTEL_EXPORTER_OTLP_ENDPOINT: ' ' },
    { OTEL_SERVICE_NAME: 'x', OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: 'http://x' },
    { ...ENDPOINT, OTEL_SDK_DISABLED: 'TRUE' },
    { ...ENDPOINT, OTEL_TRACES_EXPORTER: 'none' },
  ];
  for (const env of off) assert.equal(tracingSettings(env), null, JSON.stringify(env));
  assert.equal(tracingSettings(ENDPOINT)?.protocol, 'http/protobuf');
  assert.equal(tracingSettings({ ...ENDPOINT, OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json' })?.protocol, 'http/json');
  const own = { OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'https://example.org/traces' };
  assert.equal(tracingSettings(own)?.endpoint, 'https://example.org/traces');
});

test('a value that cannot be followed is named', () => {
  for (const [name, value] of [
    ['OTEL_EXPORTER_OTLP_ENDPOINT', 'localhost:4318'],
    ['OTEL_EXPORTER_OTLP_TRACES_ENDPOINT', 'ftp://x'],
    ['OTEL_EXPORTER_OTLP_PROTOCOL', 'grpc'],
    ['OTEL_TRACES_SAMPLER', 'sometimes'],
  ] as const) {
    assert.throws(() => tracingSettings({ ...ENDPOINT, [name]: value }), new RegExp(name));
  }
  const ratio = { OTEL_TRACES_SAMPLER: 'traceidratio', OTEL_TRACES_SAMPLER_ARG: '2' };
  assert.throws(
    () => tracingSettings({ ...ENDPOINT, ...ratio }),
    /OTEL_TRACES_SAMPLER_ARG must be a number from 0 to 1/,
  );
});

for (const [sampler, argument, high, low, ofSampled, ofOther] of [
  [undefined, undefined, true, true, true, false],
  ['always_on', undefined, true, true, true, true],
  ['always_off', undefined, false, false, false, false],
  ['parentbased_always_off', undefined, false, false, true, false],
  ['traceidratio', '0.5', true, false, false, false],
  ['traceidratio', '0', false, false, false, false],
  ['traceidratio', undefined, true, true, true, true],
  ['parentbased_traceidratio', '0.5', true, false, true, false],
] as const) {
  test(`the sampler ${sampler} ${argument ?? ''}`, () => {
    const env = { ...ENDPOINT, OTEL_TRACES_SAMPLER: sampler, OTEL_TRACES_SAMPLER_ARG: argument };
    const decide = tracingSettings(env)?.sampler ?? assert.fail();
    const parent = (sampled: boolean) => ({ traceId: LOW, spanId: `${'0'.repeat(15)}1`, sampled });
    const decided = [decide(HIGH, null), decide(LOW, null), decide(LOW, parent(true)), decide(LOW, parent(false))];
    assert.deepEqual(decided, [high, low, ofSampled, ofOther]);
  });
}
