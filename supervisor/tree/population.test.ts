import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { LIMITS } from '../../protocol/limits.ts';
import { NEVER_USED, Population, type Tenant, useAfter } from './population.ts';

/** An actor reduced to its place: it has work or not, and a thread or not. */
class App implements Tenant {
  readonly key: string;
  readonly app: string;
  readonly lastUsed: number;
  use: number;
  state: 'idle' | 'waiting' | 'live' = 'idle';
  work = 1;
  readonly ends: string[] = [];
  readonly #places: Population<App>;

  constructor(places: Population<App>, key: string, lastUsed = 0, app = key) {
    this.#places = places;
    this.key = key;
    this.app = app;
    this.lastUsed = lastUsed;
    this.use = useAfter(NEVER_USED, lastUsed);
  }

  get occupied(): boolean {
    return this.state === 'live';
  }

  get evictable(): boolean {
    return this.state === 'live' && this.work === 0;
  }

  get waiting(): boolean {
    return this.state === 'waiting';
  }

  proceed(): void {
    if (this.state === 'waiting') this.state = 'idle';
    if (this.state === 'idle' && this.work > 0) this.state = this.#places.admit(this) ? 'live' : 'waiting';
  }

  evict(reason: 'idle' | 'evicted'): void {
    this.ends.push(reason);
    this.state = 'idle';
  }

  yield(): boolean {
    if (this.state !== 'live') return false;
    this.evict('evicted');
    return true;
  }

  /** Its last call ended. */
  done(): void {
    this.work = 0;
    this.#places.becameEvictable(this);
  }
}

function placesFor(places: number, { share = places, idleMs = Number.POSITIVE_INFINITY } = {}): Population<App> {
  return new Population({ places, share, idleMs, mailboxLimit: 1, concurrency: 1 });
}

/** Apps that all want a place, in the order of their names. */
function crowd(limit: number, names: string, idleMs?: number): { places: Population<App>; apps: App[] } {
  const places = placesFor(limit, idleMs === undefined ? {} : { idleMs });
  const apps = [...names].map((name, at) => new App(places, name, at));
  for (const app of apps) app.proceed();
  return { places, apps };
}

const live = (apps: App[]) =>
  apps
    .filter((app) => app.occupied)
    .map((app) => app.key)
    .join('');

describe('places', () => {
  test('are given up to the limit; the others wait', () => {
    const { apps } = crowd(2, 'abcd');
    assert.equal(live(apps), 'ab');
    assert.deepEqual(
      apps.map((app) => app.waiting),
      [false, false, true, true],
    );
  });

  test('go to those who wait, in their order, as soon as one rests', () => {
    const { apps } = crowd(2, 'abcde');
    apps[1]?.done();
    assert.equal(live(apps), 'ac');
    apps[0]?.done();
    assert.equal(live(apps), 'cd');
    apps[2]?.done();
    assert.equal(live(apps), 'de');
  });

  test('the least used idle actor makes room', () => {
    const { places, apps } = crowd(3, 'abc');
    const [a, b] = apps as [App, App];
    for (let i = 0; i < 5; i++) a.use = useAfter(a.use, 0);
    for (const app of apps) app.done();
    // Rare apps come and go on one place.
    for (const name of 'def') {
      const rare = new App(places, name, 10);
      rare.proceed();
      rare.done();
    }
    assert.equal(a.state, 'live');
    assert.deepEqual(b.ends, ['evicted']);
  });

  test('use counts each call, and half of it after a minute', () => {
    const after = (...times: number[]) => times.reduce(useAfter, NEVER_USED);
    const minute = LIMITS.useHalfLifeMs;
    assert.ok(after(0, 0) > after(0));
    assert.ok(after(minute) > after(0));
    assert.ok(Math.abs(after(0, 0) - after(minute)) < 1e-9, 'two a minute ago are one now');
    assert.ok(Math.abs(after(0, 0, minute, 2 * minute) - after(2 * minute, 2 * minute)) < 1e-9);
    // No clock is too far on, and no pause too long.
    const late = 1e14;
    assert.ok(after(0, late, late + 1) > after(late, late));
  });

  test('the least recently used idle actor makes room', () => {
    const { places, apps } = crowd(3, 'abc');
    for (const app of apps) app.done();
    assert.equal(live(apps), 'abc', 'none waited, so none had to go');
    new App(places, 'd').proceed();
    assert.equal(live(apps), 'bc');
    assert.deepEqual(apps[0]?.ends, ['evicted']);
  });

  test('are not kept for one that has no work left', () => {
    const { places, apps } = crowd(1, 'abc');
    const [a, b, c] = apps as [App, App, App];
    b.work = 0;
    a.state = 'idle';
    places.next();
    assert.equal(live(apps), 'c');
    assert.deepEqual([b.state, c.state], ['idle', 'live']);
  });

  test('are taken in turns from actors that are never idle', () => {
    const { places, apps } = crowd(2, 'abcd');
    const seen = [live(apps)];
    for (let n = 0; n < 4; n++) {
      places.tidy(0);
      seen.push(live(apps));
    }
    assert.deepEqual(seen, ['ab', 'bc', 'cd', 'ad', 'ab']);
  });

  test('are left alone by the turns while none wait', () => {
    const { places, apps } = crowd(2, 'ab');
    places.tidy(0);
    assert.equal(live(apps), 'ab');
  });

  test('are released by unused and removed actors', () => {
    const { places, apps } = crowd(2, 'abc', 0);
    const [a, b, c] = apps as [App, App, App];
    a.work = 0;
    places.tidy(0.5);
    assert.deepEqual([a.ends, b.ends], [['idle'], []]);
    places.delete(b);
    b.state = 'idle';
    places.next();
    assert.equal(live(apps), 'c');
    places.delete(c);
    c.state = 'idle';
    a.work = 1;
    a.proceed();
    assert.equal(live(apps), 'a');
  });
});

describe('a share of the places', () => {
  const busy = (app: App): boolean => app.state === 'live';

  test('one app cannot take them all: another gets the rest though it came later', () => {
    const places = placesFor(4, { share: 3 });
    const greedy = [1, 2, 3, 4, 5].map((n) => new App(places, `a${n}`, n, 'a'));
    const other = new App(places, 'b1', 9, 'b');
    for (const app of [...greedy, other]) app.proceed();
    assert.deepEqual(greedy.map(busy), [true, true, true, false, false]);
    assert.ok(busy(other), 'the last place is not for the first app');
    greedy[0]?.done();
    assert.deepEqual(greedy.map(busy), [false, true, true, true, false]);
  });

  test('an actor that waits for its app’s share neither blocks others nor costs them idle threads', () => {
    const places = placesFor(3, { share: 2 });
    const greedy = [1, 2, 3].map((n) => new App(places, `a${n}`, n, 'a'));
    const other = new App(places, 'b1', 9, 'b');
    for (const app of [...greedy, other]) app.proceed();
    other.done();
    assert.deepEqual(other.ends, [], 'its place would be of no use to the one that waits');
    const late = new App(places, 'c1', 10, 'c');
    late.proceed();
    assert.ok(busy(late), 'it takes the place of the one that rests');
    assert.deepEqual(other.ends, ['evicted']);
    assert.deepEqual(greedy.map(busy), [true, true, false]);
  });
});
