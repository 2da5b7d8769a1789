/** What a scrape of the metrics costs where there are many apps, and how long it holds the supervisor's event loop. */
import { setTimeout as pause } from 'node:timers/promises';
import { inParallel } from '../../storage/files/atomic-file.ts';
import { type Scenario, sized, withDaemon } from '../context.ts';
import type { Daemon } from '../daemon.ts';
import { fact } from '../measurements.ts';
import { median } from '../statistics.ts';
import { appIds, crowd } from './crowd.ts';
import { delayOf } from './loop.ts';

const APPS = { full: 2000, smoke: 20 };
const SCRAPES = { full: 30, smoke: 3 };
const TARGET = '/svc/_metrics';
/** Apps that were used: more than have a label of their own. Each has its thread started, so not all. */
const USED = { full: 110, smoke: 5 };
const TOGETHER = 4;

export const metricsScenario: Scenario = {
  name: 'metrics',
  question: 'How long does a scrape of the metrics of 2,000 apps take, and hold the event loop?',
  run: async (context) => {
    const apps = sized(context, APPS);
    const scrapes = sized(context, SCRAPES);
    const used = sized(context, USED);
    const work = async (daemon: Daemon) => {
      context.progress(`  ${used} apps are used once`);
      await inParallel(appIds(used), TOGETHER, (app) => daemon.readNote(app));
      const times: number[] = [];
      let bytes = 0;
      for (let i = 0; i < scrapes; i++) {
        const startedAt = performance.now();
        bytes = (await (await daemon.request('GET', TARGET)).text()).length;
        // The first one loads the package.
        if (i > 0) times.push(performance.now() - startedAt);
        await pause(20);
      }
      const delays: number[] = [];
      const quiet: number[] = [];
      for (let i = 0; i < scrapes; i++) {
        quiet.push(await delayOf(daemon, 'GET', { what: 'nothing', target: '/svc/_health' }));
        delays.push(await delayOf(daemon, 'GET', { what: 'a scrape', target: TARGET }));
      }
      const of = `${scrapes} scrapes, ${apps} apps of which ${used} were used, ${Math.round(bytes / 1024)} KiB`;
      return [
        fact('a scrape', median(times), 'ms', `median of ${of}`),
        fact('a scrape, longest', Math.max(...times), 'ms', `of ${of}`),
        // What other processes take of the processor makes a delay longer, and never shorter.
        fact('delay of the event loop', median(delays), 'ms', `median of the longest of each of ${of}`),
        fact('delay of the event loop, longest', Math.max(...delays), 'ms', `of ${of}`),
        fact('the same without a scrape', median(quiet), 'ms', 'median of as many requests for `/svc/_health`'),
      ];
    };
    return withDaemon(context, work, { dataDir: await crowd(context, appIds(apps)) });
  },
};
