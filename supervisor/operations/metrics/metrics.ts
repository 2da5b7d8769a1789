/**
 * The gateway's metrics as Prometheus text. Nothing is measured for them while nobody asks: a scrape collects what the parts of the
 * gateway have counted, and lets the event loop go on in between (decisions, section 14).
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Metric, Registry } from 'prom-client';
import type { Services } from '../../services.ts';
import { appFamilies } from './app-families.ts';
import { type Family, type Sample, samplesOf } from './families.ts';
import { gatewayFamilies } from './gateway-families.ts';

export class Metrics {
  readonly #services: Services;
  #registry: Promise<Registry> | null = null;
  #scrape: Promise<string> | null = null;

  constructor(services: Services) {
    this.#services = services;
  }

  /** The text of a scrape; those who ask meanwhile get the same. */
  text(): Promise<string> {
    this.#scrape ??= this.#collect().finally(() => {
      this.#scrape = null;
    });
    return this.#scrape;
  }

  async #collect(): Promise<string> {
    this.#registry ??= this.#open();
    const registry = await this.#registry;
    const texts: string[] = [];
    for (const { name } of registry.getMetricsAsArray()) {
      // The largest takes two milliseconds.
      await nextTurn();
      texts.push(await registry.getSingleMetricAsString(name));
    }
    return `${texts.join('\n\n')}\n`;
  }

  /** The package is loaded by the first scrape: most gateways have none. */
  async #open(): Promise<Registry> {
    const { Registry } = await import('prom-client');
    const registry = new Registry();
    const services = this.#services;
    services.metricsLoop.start();
    for (const family of [...gatewayFamilies(services), ...appFamilies(services)])
      registry.registerMetric(metricOf(family));
    return registry;
  }
}

/**
 * A metric of the package whose values are made when it is asked for them. Its own hold each value under a hash of its labels,
 * which costs about a microsecond for each change.
 */
function metricOf(family: Family): Metric {
  const { name, help, type } = family;
  const get = async (): Promise<{ name: string; help: string; type: string; values: Sample[] }> => {
    return { name, help, type, values: samplesOf(name, await family.collect()) };
  };
  return { name, help, type, get } as unknown as Metric;
}
