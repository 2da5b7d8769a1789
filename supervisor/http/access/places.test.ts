import assert from 'node:assert/strict';
import { test } from 'node:test';
import { resolveConfig } from '../../config.ts';
import { isSameMachine, type Place, Places } from './places.ts';

const AUTO = resolveConfig('/data');

/** A place as `<kind> <base>`, with the owner of a page. A host that is none of ours is `421`. */
function placeOf(places: Places, host: string | undefined): string {
  let place: Place;
  try {
    place = places.of(host);
  } catch (error) {
    return String((error as { status: number }).status);
  }
  const { owner } = place;
  const whose = place.kind !== 'page' ? '' : owner === null ? ' ?' : ` ${owner.workspace ?? ''}/${owner.app}`;
  return `${place.kind}${whose} ${place.base}`;
}

const LOCAL = 'http://svc.localhost:8787';

const CASES: [title: string, config: ConstructorParameters<typeof Places>[0], hosts: [string | undefined, string][]][] =
  [
    [
      'by default',
      AUTO,
      [
        ['svc.localhost:8787', `console ${LOCAL}`],
        ['SVC.LocalHost:8787', `console ${LOCAL}`],
        ['svc.localhost', 'console http://svc.localhost'],
        ['svc.localhost.:8787', `console ${LOCAL}`],
        ['todos.svc.localhost:8787', `page /todos ${LOCAL}`],
        ['a-0123456789ab.svc.localhost:8787', `page ? ${LOCAL}`],
        ['s1--todos.draft.svc.localhost:8787', `page s1/todos ${LOCAL}`],
        ['a-0123456789ab--todos.draft.svc.localhost:8787', `page ? ${LOCAL}`],
        ['a.b.svc.localhost:8787', `loopback ${LOCAL}`],
        ['localhost:8787', `loopback ${LOCAL}`],
        ['todos.localhost:8787', `loopback ${LOCAL}`],
        ['127.0.0.1:8787', `loopback ${LOCAL}`],
        ['127.8.9.1:8787', `loopback ${LOCAL}`],
        ['[::1]:8787', `loopback ${LOCAL}`],
        [undefined, 'loopback http://svc.localhost'],
        ['192.168.1.5:8787', '421'],
        ['svc.localhost:99999', '421'],
        ['evil.example', '421'],
        ['svc.localhost.evil.example', '421'],
        ['evilsvc.localhost.example', '421'],
        ['127.0.0.1.evil.example', '421'],
        ['localhost.evil.example', '421'],
      ],
    ],
    [
      'bound to every address',
      { ...AUTO, host: '0.0.0.0', allowedHosts: ['gateway.lan'] },
      [
        ['192.168.1.5:8787', 'shared null'],
        ['[fe80::1]:8787', 'shared null'],
        ['gateway.lan:8787', 'shared null'],
        ['Gateway.Lan', 'shared null'],
        ['other.lan', '421'],
        ['127.0.0.1:8787', `loopback ${LOCAL}`],
      ],
    ],
    [
      'with a domain',
      { ...AUTO, appDomain: 'Apps.example.org' },
      [
        ['apps.example.org', 'console https://apps.example.org'],
        ['todos.apps.example.org', 'page /todos https://apps.example.org'],
        ['s1--todos.draft.apps.example.org', 'page s1/todos https://apps.example.org'],
        ['todos.apps.example.org:8443', 'page /todos https://apps.example.org:8443'],
        ['x.y.apps.example.org', '421'],
        ['example.org', '421'],
        ['svc.localhost:8787', `console ${LOCAL}`],
      ],
    ],
    [
      'isolated',
      { ...AUTO, pageOrigins: 'isolated', host: '192.168.1.5' },
      [
        ['192.168.1.5:8787', 'loopback null'],
        ['127.0.0.1:8787', `loopback ${LOCAL}`],
        ['svc.localhost:8787', `console ${LOCAL}`],
      ],
    ],
    [
      'isolated with a domain',
      { ...AUTO, pageOrigins: 'isolated', host: '192.168.1.5', appDomain: 'apps.example.org' },
      [['192.168.1.5:8787', 'loopback https://apps.example.org']],
    ],
    [
      'shared',
      { ...AUTO, pageOrigins: 'shared', appDomain: 'apps.example.org' },
      [
        ['127.0.0.1:8787', 'shared null'],
        ['svc.localhost:8787', 'shared null'],
        ['todos.svc.localhost:8787', 'shared null'],
        ['apps.example.org', 'shared null'],
        ['evil.example', '421'],
      ],
    ],
  ];

for (const [title, config, hosts] of CASES) {
  test(`what a Host stands for, ${title}`, () => {
    const places = new Places(config);
    for (const [host, expected] of hosts) {
      assert.equal(placeOf(places, host), expected, host);
      assert.equal(placeOf(places, host), expected, `${host}, remembered`);
    }
  });
}

test('what another node of the cluster sent on has its Host', () => {
  const places = new Places({ ...AUTO, host: '10.0.0.5' });
  assert.equal(placeOf(places, '10.0.0.6:8787'), '421');
  for (const host of ['10.0.0.6:8787', '[fd00::7]:8787', 'Node-8']) {
    places.takeSentOn(host);
    assert.equal(placeOf(places, host), 'shared null', host);
  }
  assert.equal(placeOf(places, 'node-8:443'), 'shared null');
  assert.equal(placeOf(places, '10.0.0.9:8787'), '421');
});

test('the page of an app is embedded by the console and by itself, the console by itself', () => {
  const places = new Places(AUTO);
  assert.equal(places.of('todos.svc.localhost:8787').frameAncestors, `'self' ${LOCAL}`);
  assert.equal(places.of('svc.localhost:8787').frameAncestors, "'self'");
  assert.equal(new Places({ ...AUTO, pageOrigins: 'shared' }).of('127.0.0.1:1').frameAncestors, "'self'");
});

test('a program on this machine shows people the console’s public address', () => {
  const outside = new Places({ ...AUTO, appDomain: 'apps.example.org' });
  assert.equal(outside.consoleOf(outside.of('127.0.0.1:8787')), 'https://apps.example.org');
  assert.equal(outside.consoleOf(outside.of('svc.localhost:8787')), LOCAL);
  const inside = new Places(AUTO);
  assert.equal(inside.consoleOf(inside.of('127.0.0.1:8787')), LOCAL);
});

test('a page is sent to its own origin, or stays where all share one', () => {
  const places = new Places({ ...AUTO, host: '0.0.0.0' });
  const owner = { app: 'my_app', workspace: 's1' };
  const there = places.originOf(places.of('127.0.0.1:8787'), owner);
  assert.match(there, /^http:\/\/s1--a-[0-9a-f]{12}\.draft\.svc\.localhost:8787$/);
  assert.equal(places.of(there.slice('http://'.length)).kind, 'page');
  assert.equal(places.originOf(places.of('192.168.1.5:8787'), owner), 'http://192.168.1.5:8787');
});

test('a request of this machine comes to a name of it from an address of it', () => {
  const places = new Places({ ...AUTO, host: '0.0.0.0', allowedHosts: ['svc.example.org'] });
  for (const [host, address, expected] of [
    ['svc.localhost:8787', '127.0.0.1', true],
    ['[::1]:8787', '::1', true],
    ['localhost', '::ffff:127.0.0.1', true],
    ['svc.example.org', '127.0.0.1', false],
    ['svc.localhost:8787', '172.17.0.1', false],
    ['svc.localhost:8787', '', false],
  ] as const)
    assert.equal(isSameMachine(places.of(host), address), expected, `${host} ${address}`);
});
