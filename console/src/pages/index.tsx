// The pages by their address.

import type { Place } from '../router';
import { texts } from '../texts';
import { Title } from '../ui';
import { Audit } from './audit';
import { Callbacks } from './callbacks';
import { ConfigurationPage } from './configuration';
import { LogPage } from './log';
import { Overview } from './overview';
import { LiquidityPage, Participants } from './participants';
import { ParticipantPage } from './participant';
import { Payment } from './payment';
import { Payments } from './payments';
import { ProposalPage, Proposals } from './proposals';
import { SettlementDetails, SettlementPage } from './settlement';
import { System } from './system';

/** The first part of the address of each page, and its name in the navigation. */
export const PAGES: [string, string][] = [
  ['', texts.navigation.overview],
  ['transfers', texts.navigation.payments],
  ['participants', texts.navigation.participants],
  ['liquidity', texts.navigation.liquidity],
  ['callbacks', texts.navigation.callbacks],
  ['settlement', texts.navigation.settlement],
  ['proposals', texts.navigation.proposals],
  ['audit', texts.navigation.audit],
  ['log', texts.navigation.log],
  ['configuration', texts.navigation.configuration],
  ['system', texts.navigation.system],
];

export function Page({ place }: { place: Place }) {
  const [first, second] = place.path;
  if (first === undefined) return <Overview />;
  if (first === 'transfers') {
    return second === undefined ? <Payments query={place.query} /> : <Payment key={second} id={second} />;
  }
  if (first === 'participants') {
    return second === undefined ? <Participants /> : <ParticipantPage key={second} name={second} />;
  }
  if (first === 'liquidity') return <LiquidityPage />;
  if (first === 'settlement') {
    return second === undefined ? <SettlementPage /> : <SettlementDetails key={second} id={second} />;
  }
  if (first === 'proposals') {
    return second === undefined ? <Proposals /> : <ProposalPage key={second} id={second} />;
  }
  if (first === 'audit') return <Audit />;
  if (first === 'configuration') return <ConfigurationPage />;
  if (first === 'log') return <LogPage view={second} />;
  if (first === 'system') return <System />;
  if (first === 'callbacks') return <Callbacks />;
  return <Title text={texts.errors.notFound} />;
}
