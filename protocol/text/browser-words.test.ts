import assert from 'node:assert/strict';
import { test } from 'node:test';
import { browserWords } from './browser-words.ts';

test('browsers and their systems are named, of the header that they send', () => {
  const safari = 'AppleWebKit/605.1.15 (KHTML, like Gecko) Version/26.0 Mobile/15E148 Safari/604.1';
  const chrome = 'AppleWebKit/537.36 (KHTML, like Gecko) Chrome/150.0.0.0';
  for (const [device, words] of [
    [`Mozilla/5.0 (iPhone; CPU iPhone OS 18_6 like Mac OS X) ${safari}`, 'Safari on iPhone'],
    [`Mozilla/5.0 (Linux; Android 10; K) ${chrome} Mobile Safari/537.36`, 'Chrome on Android'],
    [`Mozilla/5.0 (Windows NT 10.0; Win64; x64) ${chrome} Safari/537.36 Edg/150.0.0.0`, 'Edge on Windows'],
    ['Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0', 'Firefox on Linux'],
    ['curl/8.5.0', 'curl/8.5.0'],
    ['', 'a program'],
  ] as const)
    assert.equal(browserWords(device), words);
});
