/** The parts of a gateway for one app under test, without a port, agents or a log. */
import { pino } from 'pino';
import { SvcError } from '../../protocol/errors.ts';
import { resolveConfig } from '../../supervisor/config.ts';
import type { Simulation } from '../../supervisor/simulation.ts';
import { type Assembly, assemble } from '../../supervisor/wiring.ts';

/** The data that `svc test` passes to the test files, as JSON in the variable `SVC_TEST`. */
export type Prepared = {
  /** The app's folder, for the places of errors. */
  folder: string;
  app: string;
  /** A data directory in which the app is live; each test has a copy. Copies are made beside it. */
  dataDir: string;
  /** The webhook secrets that the gateway generated, by the id of the automation. */
  minted: Record<string, string>;
};

/** Starts them on a data directory. The app can be called only with a `simulation`. Rejects as a gateway does. */
export function startParts(dataDir: string, simulation?: Simulation): Promise<Assembly> {
  // The data of a test need not survive a power cut.
  const config = resolveConfig(dataDir, { durability: 'normal', log: 'silent' });
  // Without a simulation nothing runs.
  config.handlerHosts = simulation === undefined ? 0 : 1;
  return assemble(config, pino({ level: 'silent' }), {
    auth: true,
    authorize: undefined,
    trustHost: false,
    kind: 'daemon',
    listening: () => null,
    onFatal: (reason) => {
      throw new Error(reason);
    },
    extensions: { conversationRunner: noAgent, runnerStatus: undefined, fireAutomationFactory: undefined },
    ...(simulation && { simulation }),
  });
}

// biome-ignore lint/correctness/useYield: it fails before there is anything to yield
async function* noAgent(): AsyncGenerator<never> {
  throw new SvcError('NO_RUNNER', 'Tests of apps have no agent.');
}
