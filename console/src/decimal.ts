// Amounts as decimal texts with at most four decimals, as the API gives them; exact at any size.

const PLACES = 4;

function units(text: string): bigint {
  const [whole = '0', decimals = ''] = text.replace(/^-/, '').split('.');
  const value = BigInt(whole + decimals.padEnd(PLACES, '0').slice(0, PLACES));
  return text.startsWith('-') ? -value : value;
}

/** The sum of two amounts. */
export function sum(one: string, other: string): string {
  const value = units(one) + units(other);
  const digits = String(value < 0n ? -value : value).padStart(PLACES + 1, '0');
  const decimals = digits.slice(-PLACES).replace(/0+$/, '');
  const whole = digits.slice(0, -PLACES);
  return `${value < 0n ? '-' : ''}${whole}${decimals === '' ? '' : `.${decimals}`}`;
}

/** With a comma after each three digits. */
export function grouped(text: string): string {
  const [whole = '', decimals] = text.split('.');
  const shown = whole.replace(/\B(?=(\d{3})+$)/g, ',');
  return decimals === undefined ? shown : `${shown}.${decimals}`;
}
