/** The error that a client throws for an answer of the gateway, and what of an answer is one. */
import type { ErrorBody, InputIssue } from '../errors.ts';

/** What the gateway answered instead of a result. `status` is 0 where no answer came. */
export class GatewayError extends Error {
  readonly status: number;
  readonly code: string;
  /** The member of the request that is wrong, where one is. */
  readonly path: string | undefined;
  /** Everything that is wrong, where there is more than one thing. */
  readonly issues: readonly InputIssue[];
  /** Those of a `MERGE_CONFLICT`. */
  readonly files: readonly string[];

  constructor(status: number, { code, message, path, issues = [], files = [] }: ErrorBody) {
    super(message);
    this.status = status;
    this.code = code;
    this.path = path;
    this.issues = issues;
    this.files = files;
  }

  /** As it was in the answer. */
  toBody(): ErrorBody {
    const { code, message, path, issues, files } = this;
    return {
      code,
      message,
      ...(path !== undefined && { path }),
      ...(issues.length > 0 && { issues: [...issues] }),
      ...(files.length > 0 && { files: [...files] }),
    };
  }
}

/** Undefined for an answer of another program, such as a proxy. */
export function errorIn(answer: unknown): ErrorBody | undefined {
  const error = (answer as { error?: ErrorBody } | null | undefined)?.error;
  return typeof error?.code === 'string' && typeof error.message === 'string' ? error : undefined;
}

/** What an answer that is no success means. */
export function refusal(status: number, answer: unknown): GatewayError {
  const message = `The answer has status ${status} and is not a gateway's. Is the address right?`;
  return new GatewayError(status, errorIn(answer) ?? { code: 'INTERNAL', message });
}
