import React, { useState } from "react";
import { Row } from "./row";

interface Props {
  amounts: number[];
}

export function Table({ amounts }: Props) {
  const [open, setOpen] = useState(false);
  const toggle = () => setOpen(!open);
  return <div onClick={toggle}>{amounts.map((amount) => <Row amount={amount} />)}</div>;
}

export class Panel extends React.Component<Props> {
  render() {
    return <Table amounts={this.props.amounts}></Table>;
  }
}
