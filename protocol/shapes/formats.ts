/** The formats of texts that a pattern cannot say. Pure. */
import { isIP } from 'node:net';
import { isAppId, isChosenId, isVersionId } from '../ids.ts';
import { isHostPattern } from '../rules/egress.ts';
import { isNetwork } from '../rules/ip-addresses.ts';
import type { Format } from './schema.ts';

const HOST_NAME = /^(?=.{1,253}$)[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?$/i;
/** As the servers of ntfy take them. */
const TOPIC = /^\/[-_A-Za-z0-9]{1,64}$/;

/** An address of one of these protocols. */
function addressOf(text: string, ...protocols: string[]): URL | null {
  const address = URL.canParse(text) ? new URL(text) : null;
  return address !== null && protocols.includes(address.protocol) ? address : null;
}

/** Of the web, without a user and a password. */
function webAddressOf(text: string): URL | null {
  const address = addressOf(text, 'http:', 'https:');
  return address?.username === '' && address.password === '' ? address : null;
}

/** A name or address of this machine. */
const LOOPBACK = /^(?:(?:.+\.)?localhost|127(?:\.\d{1,3}){3}|\[::1\])$/;

/** Only on this machine is nobody between the two who could read or change what is sent. */
export function isSecureAddress(url: URL): boolean {
  return url.protocol === 'https:' || (url.protocol === 'http:' && LOOPBACK.test(url.hostname));
}

function isGiven(text: string): boolean {
  return /^https?:\/\/\S+$/.test(text);
}

export const FORMATS: Readonly<Record<Format, (text: string) => boolean>> = {
  'app id': isAppId,
  'version id': isVersionId,
  'chosen id': isChosenId,
  network: isNetwork,
  'host pattern': isHostPattern,
  domain: (text) => HOST_NAME.test(text) && text.includes('.'),
  'host name': (text) => HOST_NAME.test(text) || isIP(text) !== 0,
  'catalog address': (text) => isGiven(text) && addressOf(text, 'http:', 'https:') !== null,
  'public address': (text) => isGiven(text) && !/[?#]/.test(webAddressOf(text)?.href ?? '?'),
  'web address': (text) => webAddressOf(text) !== null,
  'secure address': (text) => {
    const address = webAddressOf(text);
    return address !== null && isSecureAddress(address) && !/[?#]/.test(text);
  },
  'ntfy topic': (text) => TOPIC.test(webAddressOf(text)?.pathname ?? ''),
  // With a socket of this machine it has no host.
  'cluster database': (text) => !/\s/.test(text) && addressOf(text, 'postgres:', 'postgresql:') !== null,
  'mail server': (text) => (addressOf(text, 'smtp:', 'smtps:')?.hostname ?? '') !== '',
};
