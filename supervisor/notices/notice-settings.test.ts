import assert from 'node:assert/strict';
import { test } from 'node:test';
import { resolveConfig } from '../config.ts';
import { configuredChannels, contactOf } from './configured-channels.ts';
import type { MailSettings, NotifyEntry } from './notice-settings.ts';

const MAIL: MailSettings = { url: 'smtps://u:p@mail.example', from: 'svc <svc@home.example>', to: ['a@b.example'] };

test('mail alone is a channel, entries of kind mail take its place, and a second one of a kind has a number', () => {
  const names = (notify: NotifyEntry[], mail: MailSettings | null = MAIL) =>
    configuredChannels(resolveConfig('/data', { mail, notify })).map(({ name }) => name);
  const ntfy = { kind: 'ntfy' as const, url: 'https://ntfy.example/a' };
  assert.deepEqual(names([]), ['mail']);
  assert.deepEqual(names([], null), []);
  assert.deepEqual(names([ntfy, { kind: 'push' }, ntfy], null), ['ntfy', 'ntfy 2']);
  assert.deepEqual(names([{ kind: 'mail', to: 'b@c.example' }, { kind: 'mail' }]), ['mail', 'mail 2']);
});

test('the contact for push services is the one of the configuration, else an address that it names', () => {
  const contact = (notify: NotifyEntry[], publicUrl: string | null, mail: MailSettings | null) =>
    contactOf(resolveConfig('/data', { notify, publicUrl, mail }));
  assert.equal(
    contact([{ kind: 'push', contact: 'mailto:x@y.example' }], 'https://g.example', MAIL),
    'mailto:x@y.example',
  );
  assert.equal(contact([], 'https://g.example', MAIL), 'https://g.example');
  assert.equal(contact([], 'http://g.example', MAIL), 'mailto:svc@home.example');
  assert.equal(contact([], null, null), 'mailto:nobody@example.org');
});
