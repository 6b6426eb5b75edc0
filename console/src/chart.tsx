// Lines of the last minute, as SVG.

import type { ComponentChildren } from 'preact';

const WIDTH = 240;
const HEIGHT = 48;

/** One line; a value that is absent is a gap. */
export interface Line {
  name: string;
  values: (number | undefined)[];
  kind: 'good' | 'bad' | 'plain';
}

/** A small chart. The same numbers are in the text next to it, so that it is only decoration. */
export function Sparkline({ lines }: { lines: Line[] }) {
  const all = lines.flatMap((line) => line.values).filter((value) => value !== undefined);
  const highest = Math.max(1e-9, ...all);
  return (
    <svg class="spark" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">
      {lines.map((line) => (
        <path key={line.name} class={line.kind} d={path(line.values, highest)} />
      ))}
    </svg>
  );
}

function path(values: (number | undefined)[], highest: number): string {
  const step = WIDTH / Math.max(1, values.length - 1);
  let isGap = true;
  let text = '';
  values.forEach((value, index) => {
    if (value === undefined) {
      isGap = true;
      return;
    }
    const y = HEIGHT - 2 - (value / highest) * (HEIGHT - 4);
    text += `${isGap ? 'M' : 'L'}${(index * step).toFixed(1)} ${y.toFixed(1)}`;
    isGap = false;
  });
  return text;
}

/** A figure with its name, and a chart of its last minute. */
export function Figure(it: { name: string; value: string; children?: ComponentChildren }) {
  return (
    <div class="figure">
      <dt>{it.name}</dt>
      <dd>
        <strong>{it.value}</strong>
        {it.children}
      </dd>
    </div>
  );
}
