/** Says in words why a notice could not be delivered. No address, password or answer of another server is in them. */
import { SvcError } from '../../protocol/errors.ts';
import type { Notice } from '../../protocol/notice.ts';

/** Sends one notice. Rejects with `DeliveryError`, or with what a network or library throws; ends soon once the signal aborts. */
export type Send = (notice: Notice, signal: AbortSignal) => Promise<void>;

/** Its message is for people. */
export class DeliveryError extends Error {
  /** The notice itself was refused: to send it again would not help. */
  readonly isRefused: boolean;
  /** The address is no longer there: a browser that took its agreement back. */
  readonly isGone: boolean;
  /** Of the answer, where there was one. */
  readonly status: number | undefined;

  constructor(message: string, { isRefused = false, isGone = false, status = undefined as number | undefined } = {}) {
    super(message);
    this.isRefused = isRefused;
    this.isGone = isGone;
    this.status = status;
  }
}

const WORDS: Record<string, string> = {
  ECONNREFUSED: 'Nothing answers at its address.',
  ECONNRESET: 'The connection broke off.',
  EPIPE: 'The connection broke off.',
  UND_ERR_SOCKET: 'The connection broke off.',
  ENOTFOUND: 'Its name has no address.',
  EAI_AGAIN: 'Its name has no address.',
  EDNS: 'Its name has no address.',
  EHOSTUNREACH: 'There is no way to its address.',
  ENETUNREACH: 'There is no way to its address.',
  ETIMEDOUT: 'It did not answer in time.',
  UND_ERR_CONNECT_TIMEOUT: 'It did not answer in time.',
  ABORT_ERR: 'It did not answer in time.',
  EAUTH: 'The mail server refused the user name or the password.',
  ENOAUTH: 'The mail server wants a user name and a password.',
  ETLS: 'The mail server offers no secure connection.',
  EPROTOCOL: 'It does not speak the protocol that was expected.',
};
/** Codes of certificates that are not trusted. */
const CERTIFICATE = /CERT|ALTNAME|SELF_SIGNED|UNABLE_TO/;
const CODE = /^[A-Z0-9_]{1,60}$/;

/** For status, answers and the log. */
export function inWords(error: unknown): string {
  if (error instanceof DeliveryError || error instanceof SvcError) return error.message;
  const { code, responseCode, cause, name, message } = (error ?? {}) as Record<string, unknown>;
  if (typeof responseCode === 'number' && code !== 'EAUTH') return `The mail server answered with ${responseCode}.`;
  if (name === 'AbortError' || name === 'TimeoutError') return 'It did not answer in time.';
  // `fetch` keeps the reason in its cause, and nodemailer in the text of the error of a socket.
  const inText = code === 'ESOCKET' ? /\bE[A-Z]{3,}\b/.exec(String(message))?.[0] : undefined;
  const reason = (cause as { code?: unknown } | undefined)?.code ?? inText ?? code;
  if (typeof reason !== 'string' || !CODE.test(reason)) return 'It could not be reached.';
  if (CERTIFICATE.test(reason)) return `Its certificate is not trusted (${reason}).`;
  return WORDS[reason] ?? `It could not be reached (${reason}).`;
}

/** A mail server that answers 5xx to the message, or a web server to its content, does so again. */
export function isRefusal(error: unknown): boolean {
  if (error instanceof DeliveryError) return error.isRefused;
  const { code, responseCode } = (error ?? {}) as { code?: unknown; responseCode?: unknown };
  return code === 'EMESSAGE' && typeof responseCode === 'number' && responseCode >= 500;
}
