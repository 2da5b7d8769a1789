/** Runs the daemon: a gateway with its own HTTP server and signal handlers (specification, "Gateway"). */
import { rm } from 'node:fs/promises';
import { isIP } from 'node:net';
import { join } from 'node:path';
import { LIMITS } from '../protocol/limits.ts';
import { type Config, ConfigError } from './config.ts';
import type { Edge } from './edge/edge.ts';
import { openEdge } from './edge/open-edge.ts';
import { buildGateway, type Gateway, type GatewayOptions } from './gateway.ts';
import { writeWhenRoom } from './operations/full-disk.ts';
import { ServiceManager } from './operations/service-manager.ts';
import { Phases } from './start/phases.ts';
import { VERSION } from './wiring.ts';

export type ServeOptions = GatewayOptions & {
  /**
   * This process is the gateway's (default true): it stops on SIGTERM and SIGINT, at once on the second one, and is a
   * service of systemd where that started it.
   */
  signals?: boolean;
};

export type RunningGateway = {
  readonly gateway: Gateway;
  readonly url: string;
  readonly token: string | null;
  readonly pid: number;
  readonly dataDir: string;
  readonly edge: 'uws' | 'node';
  /** Hands over as a node of a cluster (10 s), stops accepting, lets calls end (10 s), ends streams, flushes. */
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
  let ending: Promise<void> | null = null;
  const gateway = buildGateway({
    ...options,
    onFatal: (reason) => {
      options.onFatal?.(reason);
      void stop(1);
    },
  });
  const { config, log } = gateway;
  const phases = new Phases(log);
  const stop = (code: number): Promise<void> => {
    ending ??= phases.end(LIMITS.drainMs).then(() => finish(code));
    return ending;
  };
  try {
    phases.begin('service manager');
    const manager = new ServiceManager(signals ? process.env : {}, process.pid, log);
    phases.ends(() => manager.close());
    phases.begin('gateway');
    await gateway.start();
    const daemonFile = join(config.dataDir, 'run', 'daemon.json');
    phases.ends(() => rm(daemonFile, { force: true }));
    phases.ends((drainMs) => gateway.stop(drainMs));
    phases.begin('edge');
    const isPassed = manager.socket !== null;
    // The other edge cannot take a socket over.
    const { edge, notice } = openEdge(isPassed && config.edge === 'auto' ? 'node' : config.edge, {
      handler: gateway.exchangeHandler,
      onFault: (error) => log.error({ err: error }, 'A request failed unexpectedly.'),
    });
    phases.ends(async (drainMs) => {
      // It answers as long as the gateway does.
      await gateway.stop(drainMs);
      await edge.close();
    });
    if (notice) log.info(`${notice} svc doctor says how to get it.`);
    const { host } = config;
    const port = isPassed ? await takeOver(edge, manager.socket, config) : await edge.listen(host, config.port);
    phases.ends(() => edge.stopAccepting());
    // The other nodes answer then, and until then this one, whoever connects to it.
    phases.ends((drainMs) => gateway.leave(drainMs));
    phases.begin('ready');
    phases.ends(() => manager.stopping('Stopping: calls that are under way may end.'));
    const url = `http://${reachable(host)}:${port}`;
    gateway.setListening({ edge: edge.kind, url, notice });
    // Who reads that it runs may end it at once.
    if (signals) stopOnSignals(() => stop(0), gateway, exited);
    const ended = new AbortController();
    phases.ends(() => ended.abort());
    const daemon = { pid: process.pid, url, startedAt: Date.now(), version: VERSION };
    await writeWhenRoom(daemonFile, `${JSON.stringify(daemon)}\n`, ended.signal, log);
    manager.ready(`Ready on ${url}`);
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
    await phases.end(0);
    finish(1);
    throw error;
  }
}

/**
 * Listens on the socket that systemd passed. The configuration has to say the same address, because the names of the gateway
 * and the rules for outgoing connections follow from it.
 */
async function takeOver(edge: Edge, socket: number, config: Config): Promise<number> {
  const { host, port } = await edge.adopt(socket);
  if (port === config.port && (host === config.host || isIP(config.host) === 0)) return port;
  const said = `the configuration says ${config.host} port ${config.port}`;
  throw new ConfigError(`The socket of systemd listens on ${host} port ${port}, and ${said}: make them the same.`);
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

/** The name of a host in an address that can be called from this machine, which one that stands for all its addresses is not. */
function reachable(host: string): string {
  if (host === '0.0.0.0') return '127.0.0.1';
  if (host === '::') return '[::1]';
  return host.includes(':') ? `[${host}]` : host;
}
