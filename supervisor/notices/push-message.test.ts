import assert from 'node:assert/strict';
import { createECDH } from 'node:crypto';
import { test } from 'node:test';
import { PushReceiver } from '../../testing/notice-servers.ts';
import { sealedFor } from './push-message.ts';

const bytes = (text: string): Buffer => Buffer.from(text, 'base64url');

test('the example of RFC 8291, section 5, is sealed to its bytes', () => {
  const pair = createECDH('prime256v1');
  pair.setPrivateKey(bytes('yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw'));
  const keys = {
    p256dh: 'BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4',
    auth: 'BTBZMqHH6r4Tts7J_aSIgg',
  };
  const text = Buffer.from('When I grow up, I want to be a watermelon');
  const sealed = sealedFor({ endpoint: '', keys }, text, { salt: bytes('DGv6ra1nlYgDCS1FRnbzlw'), pair });
  assert.equal(
    sealed.toString('base64url'),
    'DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN',
  );
});

test('each message has other bytes, and its browser reads it', () => {
  const browser = new PushReceiver();
  const subscription = browser.subscription('https://push.example/x');
  const [one, other] = [0, 0].map(() => sealedFor(subscription, Buffer.from('{"title":"✓"}'))) as [Buffer, Buffer];
  assert.notDeepEqual(one, other);
  for (const body of [one, other]) assert.deepEqual(browser.read(body), { title: '✓' });
});
