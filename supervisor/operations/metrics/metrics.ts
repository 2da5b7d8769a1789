/**
 * Prints the gateway's metrics as Prometheus text. Work happens only in a scrape: it collects the counts of the gateway's
 * parts, and yields to the event loop in between (specification, "Metrics and traces").
 */
import { createRequire } from 'node:module';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Metric, Registry } from 'prom-client';
import type { Services } from '../../services.ts';
import { appFamilies } from './app-families.ts';
import { clusterFamilies } from './cluster-families.ts';
import { type Family, partsOf, type Sample, samplesOf } from './families.ts';
import { gatewayFamilies } from './gateway-families.ts';

/**
 * Lines made in one turn of the event loop: a third of a millisecond, or two if the code has not run for long. Little is held
 * at a time, so that the garbage collector has nothing to move.
 */
const LINES = 100;

export class Metrics {
  readonly #services: Services;
  #printer: Printer | null = null;
  #families: Family[] = [];
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
    this.#printer ??= this.#open();
    const texts: string[] = [];
    for (const family of this.#families) {
      await nextTurn();
      const lines: string[] = [];
      for (const part of partsOf(await family.collect(), LINES)) {
        if (lines.length > 0) await nextTurn();
        lines.push(await this.#printer.print(family, samplesOf(family.name, part), lines.length === 0));
      }
      texts.push(lines.join('\n'));
    }
    return `${texts.join('\n\n')}\n`;
  }

  /** The package is loaded by the first scrape: most gateways have none. */
  #open(): Printer {
    const services = this.#services;
    services.metricsLoop.start();
    this.#families = [...gatewayFamilies(services), ...clusterFamilies(services), ...appFamilies(services)];
    return new Printer();
  }
}

/** The only metric in the registry, in place of all. */
const PART = 'part';

/** The next lines of a family. */
type Part = Pick<Family, 'name' | 'help' | 'type'> & { values: Sample[] };

/**
 * Prints samples as the package prints a metric of its own. Those hold each value under a hash of its labels, which costs about a
 * microsecond for each change. One file of the package is read: all of it would hold the first scrape for 50 ms.
 */
class Printer {
  readonly #registry: Registry;
  #part: Part | null = null;

  constructor() {
    const load = createRequire(import.meta.url);
    const OfPackage = load('prom-client/lib/registry.js') as new () => Registry;
    this.#registry = new OfPackage();
    const get = async (): Promise<Part | null> => this.#part;
    this.#registry.registerMetric({ name: PART, get } as unknown as Metric);
  }

  /** Lines without the last line end; with the head of the family before the first of them. */
  async print({ name, help, type }: Family, values: Sample[], isFirst: boolean): Promise<string> {
    this.#part = { name, help, type, values };
    const text = await this.#registry.getSingleMetricAsString(PART);
    return isFirst ? text : text.slice(text.indexOf('\n', text.indexOf('\n') + 1) + 1);
  }
}
