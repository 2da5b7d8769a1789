export function highlighted(text: string, language: string): string | null;
