/** An error in the shape of OAuth, for the routes that clients of OAuth call (RFC 6749, section 5.2). */
import type { ResponseHeaders } from '../../edge/edge.ts';

/** The codes of RFC 6749, RFC 7591 and RFC 8707 that the gateway answers. */
export type OAuthCode =
  | 'invalid_request'
  | 'invalid_client'
  | 'invalid_grant'
  | 'invalid_target'
  | 'invalid_redirect_uri'
  | 'invalid_client_metadata'
  | 'unsupported_grant_type'
  | 'unsupported_response_type'
  | 'temporarily_unavailable';

export class OAuthError extends Error {
  readonly code: OAuthCode;
  readonly status: number;
  readonly headers: ResponseHeaders;

  constructor(code: OAuthCode, message: string, status = 400, headers: ResponseHeaders = {}) {
    super(message);
    this.code = code;
    this.status = status;
    this.headers = headers;
  }

  /** Quotes and what is not ASCII are left out, as RFC 6749 says. */
  toBody(): { error: OAuthCode; error_description: string } {
    return { error: this.code, error_description: this.message.replace(/[^\x20\x21\x23-\x5b\x5d-\x7e]/g, "'") };
  }
}

/** A parameter that may be there once. Throws `invalid_request` for one that is there twice. */
export function single(given: URLSearchParams, name: string): string | undefined {
  const all = given.getAll(name);
  if (all.length > 1) throw new OAuthError('invalid_request', `The parameter ${name} is there twice.`);
  return all[0];
}
