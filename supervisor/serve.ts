/** The daemon: a gateway behind an edge of its own, with signals (architecture, "Supervision"). */
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { LIMITS } from '../protocol/limits.ts';
import type { Edge } from './edge/edge.ts';
import { openEdge } from './edge/open-edge.ts';
import { buildGateway, type Gateway, type GatewayOptions } from './gateway.ts';
import { writeWhenRoom } from './operations/full-disk.ts';
import { VERSION } from './wiring.ts';

export type ServeOptions = GatewayOptions & {
  /** Stop on SIGTERM and SIGINT, at once on the second one (default true). */
  signals?: boolean;
};

export type RunningGateway = {
  readonly gateway: Gateway;
  readonly url: string;
  readonly token: string | null;
  readonly pid: number;
  readonly dataDir: string;
  readonly edge: 'uws' | 'node';
  /** Stops accepting, lets calls end (10 s), ends streams, flushes. */
  stop(): Promise<void>;
  /** The exit code, once it has stopped: 0, or 1 when it could not go on. */
  readonly exited: Promise<number>;
};

/** Builds a gateway, starts it and listens. Rejects with `EADDRINUSE` and the like, `DATA_LOCKED`, or `ConfigError`. */
export async function serve({ signals = true, ...options }: ServeOptions): Promise<RunningGateway> {
  let finish: (code: number) => void = () => {};
  const exited = new Promise<number>((resolve) => {
    finish = resolve;
  });
  let edge: Edge | null = null;
  let ending: Promise<void> | null = null;
  const gateway = buildGateway({
    ...options,
    onFatal: (reason) => {
      options.onFatal?.(reason);
      void stop(1);
    },
  });
  const { config } = gateway;
  const daemonFile = join(config.dataDir, 'run', 'daemon.json');
  const ended = new AbortController();
  const end = async (code: number) => {
    ended.abort();
    edge?.stopAccepting();
    await gateway.stop(LIMITS.drainMs);
    await edge?.close();
    await rm(daemonFile, { force: true }).catch((error: unknown) =>
      gateway.log.warn({ err: error }, 'daemon.json could not be removed.'),
    );
    finish(code);
  };
  const stop = (code: number): Promise<void> => {
    ending ??= end(code);
    return ending;
  };
  await gateway.start();
  try {
    const opened = openEdge(config.edge, {
      handler: gateway.exchangeHandler,
      onFault: (error) => gateway.log.error({ err: error }, 'A request failed unexpectedly.'),
    });
    edge = opened.edge;
    if (opened.notice) gateway.log.warn(opened.notice);
    const port = await edge.listen(config.host, config.port);
    const url = `http://${config.host.includes(':') ? `[${config.host}]` : config.host}:${port}`;
    gateway.setListening({ edge: edge.kind, url });
    const daemon = { pid: process.pid, url, startedAt: Date.now(), version: VERSION };
    await writeWhenRoom(daemonFile, `${JSON.stringify(daemon)}\n`, ended.signal, gateway.log);
    if (signals) stopOnSignals(() => stop(0), gateway, exited);
    return {
      gateway,
      url,
      token: gateway.token,
      pid: process.pid,
      dataDir: config.dataDir,
      edge: edge.kind,
      stop: () => stop(0),
      exited,
    };
  } catch (error) {
    ended.abort();
    await gateway.stop(0);
    await edge?.close();
    throw error;
  }
}

function stopOnSignals(stop: () => Promise<void>, gateway: Gateway, exited: Promise<number>): void {
  let signalled = false;
  const onSignal = (signal: NodeJS.Signals) => {
    if (signalled) {
      gateway.destroy();
      process.exit(1);
    }
    signalled = true;
    gateway.log.info(`${signal}: stopping; once more to stop at once.`);
    void stop();
  };
  const names = ['SIGTERM', 'SIGINT'] as const;
  for (const name of names) process.on(name, onSignal);
  void exited.then(() => {
    for (const name of names) process.off(name, onSignal);
  });
}
