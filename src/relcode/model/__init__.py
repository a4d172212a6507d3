"""What is believed: the bilinear score, the objectives (contrastive, autoencoder, orthogonality) and the parameters with their counters."""
